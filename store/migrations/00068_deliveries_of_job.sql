-- +goose Up
-- So that what belongs to a job is found. The table came with this version, so it is empty where others write.
CREATE INDEX deliveries_of_job ON deliveries (job);

-- +goose Down
DROP INDEX deliveries_of_job;
