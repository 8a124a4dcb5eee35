-- +goose Up
ALTER TABLE jobs ADD COLUMN service_hash BIGINT NOT NULL DEFAULT 0; -- see dispatch.ServiceHash
-- How long the last jobs of a service had a slot, see dispatch.RunTimes: JSON, pairs of milliseconds.
CREATE TABLE run_times (
	platform TEXT NOT NULL,
	service  BIGINT NOT NULL,
	spans    TEXT NOT NULL,
	updated  BIGINT NOT NULL,
	PRIMARY KEY (platform, service)
);

-- +goose Down
DROP TABLE run_times;
ALTER TABLE jobs DROP COLUMN service_hash;
