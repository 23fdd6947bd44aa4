-- Schema version 4: which of several devices of one kind a row was measured on. They are one environment, whose
-- `uuid` is of one of them. NULL: a CPU, a candidate that ran on none, or not recorded, as before.

ALTER TABLE segment_measurement ADD COLUMN device_uuid TEXT CHECK (device_uuid <> '');
ALTER TABLE plan_measurement ADD COLUMN device_uuid TEXT CHECK (device_uuid <> '');
-- All plans of a comparison are timed on one device.
ALTER TABLE comparison ADD COLUMN device_uuid TEXT CHECK (device_uuid <> '');
