-- Schema version 3: times in units of a reference plan that was timed beside the candidate, so that the
-- machine's changing speed cancels. `reference_us` is what that plan takes by agreement (which plan it is, is
-- part of `settings`), `slowdown` how much longer it took beside this candidate, in the median. NULL: the
-- candidate was timed by itself, as all were before.

ALTER TABLE segment_measurement ADD COLUMN reference_us REAL CHECK (reference_us > 0 AND reference_us < 9e999);
ALTER TABLE segment_measurement ADD COLUMN slowdown REAL CHECK (slowdown > 0 AND slowdown < 9e999);
ALTER TABLE plan_measurement ADD COLUMN reference_us REAL CHECK (reference_us > 0 AND reference_us < 9e999);
ALTER TABLE plan_measurement ADD COLUMN slowdown REAL CHECK (slowdown > 0 AND slowdown < 9e999);

-- What the reference takes by agreement: the first search says so, and all others count in the same unit. Rows of
-- imported files bring their own, which counts where none was agreed on here.
CREATE TABLE reference_time (
  id INTEGER PRIMARY KEY,
  problem TEXT NOT NULL,      -- key
  environment TEXT NOT NULL,  -- fingerprint
  cache_mode TEXT NOT NULL CHECK (cache_mode IN ('model', 'warm', 'cold')),
  settings TEXT NOT NULL CHECK (settings <> ''),
  time_us REAL NOT NULL CHECK (time_us > 0 AND time_us < 9e999),
  UNIQUE (problem, environment, cache_mode, settings)
) STRICT;
