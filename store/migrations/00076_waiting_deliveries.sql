-- +goose Up
-- So that the age of what waits is found, and the receivers that are paused, for the metrics. The tables came with this version, so they are empty
-- where others write.
CREATE INDEX deliveries_waiting ON deliveries (queued) WHERE due > 0;
CREATE INDEX hooks_held ON hooks (hold) WHERE hold > 0;

-- +goose Down
DROP INDEX hooks_held;
DROP INDEX deliveries_waiting;
