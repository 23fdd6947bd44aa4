-- Schema version 1 of a fusetune database. Times are microseconds, moments are seconds since 1970.
--
-- STRICT tables and CHECK constraints keep what must never happen out of the file whoever writes it: a time
-- exists exactly where the outcome is `ok`, and it is finite and positive (SQLite stores NaN as NULL, and
-- 9e999 is its infinity).

CREATE TABLE environment (
  id INTEGER PRIMARY KEY,
  fingerprint TEXT NOT NULL UNIQUE CHECK (fingerprint <> ''),
  fields TEXT NOT NULL CHECK (json_valid(fields))  -- object: device, isa, threads, compiler, flags, ...
) STRICT;

CREATE TABLE problem (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE CHECK (key <> '')       -- canonical text of block::Problem
) STRICT;

CREATE TABLE search_run (
  id INTEGER PRIMARY KEY,
  problem INTEGER NOT NULL REFERENCES problem (id),
  environment INTEGER NOT NULL REFERENCES environment (id),
  state TEXT NOT NULL CHECK (state IN ('running', 'finished', 'interrupted', 'failed')),
  owner TEXT NOT NULL,                             -- process that runs it, see store/process_identity.h
  started INTEGER NOT NULL,
  finished INTEGER CHECK (finished IS NULL OR finished >= started),
  options TEXT NOT NULL CHECK (json_valid(options)),
  finalists_hash TEXT,                             -- of everything the final comparison depends on
  result TEXT CHECK (result IS NULL OR json_valid(result))
) STRICT;
CREATE INDEX search_run_finalists ON search_run (finalists_hash) WHERE finalists_hash IS NOT NULL;

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
  owner TEXT NOT NULL,
  attempts INTEGER NOT NULL CHECK (attempts >= 1), -- times it was started
  abandoned INTEGER NOT NULL CHECK (abandoned >= 0),  -- times its process died before a result
  repeat_command TEXT NOT NULL,
  created INTEGER NOT NULL,
  CHECK ((outcome = 'ok') = (median_us IS NOT NULL)),
  CHECK ((outcome = 'ok') = (mad_us IS NOT NULL)),
  CHECK ((outcome = 'ok') = (min_us IS NOT NULL)),
  CHECK ((outcome = 'ok') = (sample_count IS NOT NULL)),
  UNIQUE (problem, environment, variant, source_hash, layouts, data, cache_mode, protocol)
) STRICT;

-- One row per whole plan as it was compiled.
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
  outcome TEXT NOT NULL CHECK (outcome IN ('ok', 'noisy', 'illegal', 'compile_failed', 'resource_limit',
                                           'launch_failed', 'crashed', 'timeout', 'wrong_result', 'skipped')),
  message TEXT NOT NULL,
  median_us REAL CHECK (median_us > 0 AND median_us < 9e999),
  mad_us REAL CHECK (mad_us >= 0 AND mad_us < 9e999),
  min_us REAL CHECK (min_us > 0 AND min_us < 9e999),
  sample_count INTEGER CHECK (sample_count >= 1),
  sum_us REAL CHECK (sum_us > 0 AND sum_us < 9e999),                         -- of its segments' medians
  created INTEGER NOT NULL,
  CHECK ((outcome = 'ok') = (median_us IS NOT NULL)),
  CHECK ((outcome = 'ok') = (mad_us IS NOT NULL)),
  CHECK ((outcome = 'ok') = (min_us IS NOT NULL)),
  CHECK ((outcome = 'ok') = (sample_count IS NOT NULL)),
  UNIQUE (problem, environment, mask, sources_hash, data, cache_mode, protocol)
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
