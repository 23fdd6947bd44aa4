-- Schema version 5: no time is made of samples that differ too much (is_steady() in src/measure/statistics.h). Rows that
-- earlier versions gave one, beside a reference, have none any more, and are measured again where a search needs them.
-- Exported files keep theirs: whoever reads one cannot measure again on the machine that it is of.

UPDATE segment_measurement
SET outcome = 'noisy', message = 'the machine was not steady: its samples differ too much to make a time',
    median_us = NULL, mad_us = NULL, min_us = NULL, sample_count = NULL, samples = NULL, attempts = 1
WHERE outcome = 'ok' AND reference_us IS NOT NULL AND sample_count >= 8 AND mad_us > 0.06 * median_us;

UPDATE plan_measurement
SET outcome = 'noisy', message = 'the machine was not steady: its samples differ too much to make a time',
    median_us = NULL, mad_us = NULL, min_us = NULL, sample_count = NULL, samples = NULL, attempts = 1
WHERE outcome = 'ok' AND reference_us IS NOT NULL AND sample_count >= 8 AND mad_us > 0.06 * median_us;
