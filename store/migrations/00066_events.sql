-- +goose Up
-- What happened to jobs, for operators, see dispatch.JobEvent.
CREATE TABLE events (
	job       BIGINT NOT NULL,
	at        BIGINT NOT NULL,
	what      TEXT NOT NULL,
	phase     TEXT NOT NULL,
	status    TEXT NOT NULL,
	attention TEXT NOT NULL,
	attempt   BIGINT NOT NULL,
	outcome   TEXT NOT NULL,
	took      BIGINT NOT NULL,
	detail    TEXT NOT NULL
);
CREATE INDEX events_of_job ON events (job, at);
CREATE INDEX events_by_age ON events (at);

-- +goose Down
DROP TABLE events;
