-- Schema version 2: plans are candidates like segments (claims, attempts, samples, how they were chosen), and
-- the timing settings that change a figure are part of what makes two measurements the same.
--
-- `settings` is such as `samples=12 min_time=0.001` (seconds); rows of version 1 were made with that default.
-- The two limits are those the row was tried under, seconds; NULL: not recorded. A `timeout` is an answer only
-- to who would not wait longer.
--
-- SQLite changes a table's constraints only by making the table anew. The old ones are renamed first, which
-- takes the references to them along, and dropped once nothing refers to them.

ALTER TABLE comparison RENAME TO comparison_1;
ALTER TABLE plan_measurement RENAME TO plan_measurement_1;
ALTER TABLE segment_measurement RENAME TO segment_measurement_1;

-- One row per compiled segment variant. `started` is committed before a candidate runs: what a dead process
-- leaves behind names the culprit.
CREATE TABLE segment_measurement (
  id INTEGER PRIMARY KEY,
  problem INTEGER NOT NULL REFERENCES problem (id),
  environment INTEGER NOT NULL REFERENCES environment (id),
  run INTEGER REFERENCES search_run (id),
  variant INTEGER NOT NULL CHECK (variant BETWEEN 0 AND 146),
  first_operator INTEGER NOT NULL CHECK (first_operator BETWEEN 0 AND 14),
  last_operator INTEGER NOT NULL CHECK (last_operator BETWEEN first_operator AND 14),
  hand_written INTEGER NOT NULL CHECK (hand_written IN (0, 1)),
  schedule TEXT NOT NULL,
  source_hash TEXT NOT NULL CHECK (source_hash <> ''),
  layouts TEXT NOT NULL,
  data TEXT NOT NULL,                              -- `generated`, or a hash of the weights and input files
  cache_mode TEXT NOT NULL CHECK (cache_mode IN ('model', 'warm', 'cold')),
  protocol INTEGER NOT NULL CHECK (protocol >= 1),
  settings TEXT NOT NULL CHECK (settings <> ''),
  outcome TEXT NOT NULL CHECK (outcome IN ('started', 'ok', 'noisy', 'illegal', 'compile_failed',
                                           'resource_limit', 'launch_failed', 'crashed', 'timeout',
                                           'wrong_result', 'skipped')),
  message TEXT NOT NULL,
  median_us REAL CHECK (median_us > 0 AND median_us < 9e999),
  mad_us REAL CHECK (mad_us >= 0 AND mad_us < 9e999),
  min_us REAL CHECK (min_us > 0 AND min_us < 9e999),
  sample_count INTEGER CHECK (sample_count >= 1),
  samples TEXT CHECK (samples IS NULL OR json_valid(samples)),
  dropped INTEGER NOT NULL CHECK (dropped >= 0),
  norm_error REAL,                                 -- NULL: not checked, or not finite
  worst_error REAL,
  owner TEXT NOT NULL,                             -- process that claimed or measured it; empty: not known
  attempts INTEGER NOT NULL CHECK (attempts >= 1), -- times it was started
  abandoned INTEGER NOT NULL CHECK (abandoned >= 0),  -- times its process died before a result
  repeat_command TEXT NOT NULL,
  compile_limit_s REAL CHECK (compile_limit_s > 0),
  run_limit_s REAL CHECK (run_limit_s > 0),
  created INTEGER NOT NULL,
  CHECK ((outcome = 'ok') = (median_us IS NOT NULL)),
  CHECK ((outcome = 'ok') = (mad_us IS NOT NULL)),
  CHECK ((outcome = 'ok') = (min_us IS NOT NULL)),
  CHECK ((outcome = 'ok') = (sample_count IS NOT NULL)),
  UNIQUE (problem, environment, variant, source_hash, layouts, data, cache_mode, protocol, settings)
) STRICT;

-- One row per whole plan as it was compiled. `sampled` says how it came to be timed: only plans drawn
-- uniformly say what share of all plans is how fast, so `uniform` is never replaced by another word. Rows whose
-- sources_hash is `imported` came from a file of times that names no kernels.
CREATE TABLE plan_measurement (
  id INTEGER PRIMARY KEY,
  problem INTEGER NOT NULL REFERENCES problem (id),
  environment INTEGER NOT NULL REFERENCES environment (id),
  run INTEGER REFERENCES search_run (id),
  mask INTEGER NOT NULL CHECK (mask BETWEEN 0 AND 65535),                    -- canonical
  typed_mask INTEGER CHECK (typed_mask IS NULL OR typed_mask BETWEEN 0 AND 65535),  -- as the user wrote it
  schedules TEXT NOT NULL CHECK (json_valid(schedules)),                     -- array of text, segment order
  sources_hash TEXT NOT NULL CHECK (sources_hash <> ''),
  data TEXT NOT NULL,
  cache_mode TEXT NOT NULL CHECK (cache_mode IN ('model', 'warm', 'cold')),
  protocol INTEGER NOT NULL CHECK (protocol >= 1),
  settings TEXT NOT NULL CHECK (settings <> ''),
  sampled TEXT NOT NULL CHECK (sampled IN ('uniform', 'guided', 'finalist')),
  outcome TEXT NOT NULL CHECK (outcome IN ('started', 'ok', 'noisy', 'illegal', 'compile_failed',
                                           'resource_limit', 'launch_failed', 'crashed', 'timeout',
                                           'wrong_result', 'skipped')),
  message TEXT NOT NULL,
  median_us REAL CHECK (median_us > 0 AND median_us < 9e999),
  mad_us REAL CHECK (mad_us >= 0 AND mad_us < 9e999),
  min_us REAL CHECK (min_us > 0 AND min_us < 9e999),
  sample_count INTEGER CHECK (sample_count >= 1),
  samples TEXT CHECK (samples IS NULL OR json_valid(samples)),
  dropped INTEGER NOT NULL CHECK (dropped >= 0),
  norm_error REAL,                                 -- NULL: not checked, or not finite
  worst_error REAL,
  sum_us REAL CHECK (sum_us > 0 AND sum_us < 9e999),                         -- of its segments' medians
  owner TEXT NOT NULL,                             -- as of segments, and so are the columns below
  attempts INTEGER NOT NULL CHECK (attempts >= 1),
  abandoned INTEGER NOT NULL CHECK (abandoned >= 0),
  repeat_command TEXT NOT NULL,
  compile_limit_s REAL CHECK (compile_limit_s > 0),
  run_limit_s REAL CHECK (run_limit_s > 0),
  created INTEGER NOT NULL,
  CHECK ((outcome = 'ok') = (median_us IS NOT NULL)),
  CHECK ((outcome = 'ok') = (mad_us IS NOT NULL)),
  CHECK ((outcome = 'ok') = (min_us IS NOT NULL)),
  CHECK ((outcome = 'ok') = (sample_count IS NOT NULL)),
  UNIQUE (problem, environment, mask, sources_hash, data, cache_mode, protocol, settings)
) STRICT;

-- Finalists of a run against one baseline plan, from alternating pairs: ratio = time plan / time baseline.
CREATE TABLE comparison (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES search_run (id),
  position INTEGER NOT NULL CHECK (position >= 0),  -- order of the finalists; 0 is the baseline itself
  plan INTEGER NOT NULL REFERENCES plan_measurement (id),
  baseline INTEGER NOT NULL REFERENCES plan_measurement (id),
  outcome TEXT NOT NULL,
  message TEXT NOT NULL,
  ratio REAL CHECK (ratio > 0 AND ratio < 9e999),
  low REAL CHECK (low >= 0 AND low <= ratio),       -- NULL: too few pairs for an interval
  high REAL CHECK (high >= ratio AND high < 9e999),
  pairs INTEGER NOT NULL CHECK (pairs >= 0),
  median_us REAL CHECK (median_us > 0 AND median_us < 9e999),
  mad_us REAL CHECK (mad_us >= 0 AND mad_us < 9e999),
  min_us REAL CHECK (min_us > 0 AND min_us < 9e999),
  sample_count INTEGER CHECK (sample_count >= 1),
  -- The plan over the sum of its segments, timed in turn, and the 95 % interval. NULL: not measured.
  whole_over_sum REAL CHECK (whole_over_sum > 0 AND whole_over_sum < 9e999),
  whole_over_sum_low REAL CHECK (whole_over_sum_low >= 0 AND whole_over_sum_low <= whole_over_sum),
  whole_over_sum_high REAL CHECK (whole_over_sum_high >= whole_over_sum AND whole_over_sum_high < 9e999),
  CHECK ((outcome = 'ok') = (ratio IS NOT NULL)),
  CHECK ((outcome = 'ok') = (median_us IS NOT NULL)),
  UNIQUE (run, position)
) STRICT;

INSERT INTO segment_measurement (
  id, problem, environment, run, variant, first_operator, last_operator, hand_written, schedule, source_hash,
  layouts, data, cache_mode, protocol, settings, outcome, message, median_us, mad_us, min_us, sample_count,
  samples, dropped, norm_error, worst_error, owner, attempts, abandoned, repeat_command, created)
SELECT
  id, problem, environment, run, variant, first_operator, last_operator, hand_written, schedule, source_hash,
  layouts, data, cache_mode, protocol, 'samples=12 min_time=0.001', outcome, message, median_us, mad_us,
  min_us, sample_count, samples, dropped, norm_error, worst_error, owner, attempts, abandoned, repeat_command,
  created
FROM segment_measurement_1;

-- Version 1 timed only finalists whole, and kept no samples of them.
INSERT INTO plan_measurement (
  id, problem, environment, run, mask, typed_mask, schedules, sources_hash, data, cache_mode, protocol,
  settings, sampled, outcome, message, median_us, mad_us, min_us, sample_count, dropped, sum_us, owner,
  attempts, abandoned, repeat_command, created)
SELECT
  id, problem, environment, run, mask, typed_mask, schedules, sources_hash, data, cache_mode, protocol,
  'samples=12 min_time=0.001', 'finalist', outcome, message, median_us, mad_us, min_us, sample_count, 0,
  sum_us, '', 1, 0, '', created
FROM plan_measurement_1;

INSERT INTO comparison SELECT * FROM comparison_1;

DROP TABLE comparison_1;
DROP TABLE plan_measurement_1;
DROP TABLE segment_measurement_1;
