-- Schema version 3: times in units of a reference plan that was timed beside the candidate, so that the
-- machine's changing speed cancels. `reference_us` is what that plan takes by agreement (which plan it is, is
-- part of `settings`), `slowdown` how much longer it took beside this candidate, in the median. NULL: the
-- candidate was timed by itself, as all were before.

ALTER TABLE segment_measurement ADD COLUMN reference_us REAL CHECK (reference_us > 0 AND reference_us < 9e999);
ALTER TABLE segment_measurement ADD COLUMN slowdown REAL CHECK (slowdown > 0 AND slowdown < 9e999);
ALTER TABLE plan_measurement ADD COLUMN reference_us REAL CHECK (reference_us > 0 AND reference_us < 9e999);
ALTER TABLE plan_measurement ADD COLUMN slowdown REAL CHECK (slowdown > 0 AND slowdown < 9e999);
