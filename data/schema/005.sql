-- Schema version 5: no time is made of samples that differ too much (kMostSpread in src/measure/statistics.h). Rows that
-- earlier versions gave one, beside a reference, have none any more, and may be measured again.

UPDATE segment_measurement
SET outcome = 'noisy', message = 'the machine was not steady: its samples differ too much to make a time',
    median_us = NULL, mad_us = NULL, min_us = NULL, sample_count = NULL, samples = NULL, attempts = 1
WHERE outcome = 'ok' AND reference_us IS NOT NULL AND mad_us > 0.06 * median_us;

UPDATE plan_measurement
SET outcome = 'noisy', message = 'the machine was not steady: its samples differ too much to make a time',
    median_us = NULL, mad_us = NULL, min_us = NULL, sample_count = NULL, samples = NULL, attempts = 1
WHERE outcome = 'ok' AND reference_us IS NOT NULL AND mad_us > 0.06 * median_us;
