-- +goose Up
-- Synchronous runs. Their ids are jobs'; visits do not see them.
CREATE TABLE sync_runs (
	id       BIGINT PRIMARY KEY,
	owner    TEXT NOT NULL,
	account  TEXT NOT NULL,
	request  TEXT NOT NULL,
	status   TEXT NOT NULL,
	ref_base TEXT NOT NULL DEFAULT '',
	ref_id   TEXT NOT NULL DEFAULT '',
	failure  TEXT NOT NULL DEFAULT '',
	lapses   BIGINT NOT NULL, -- when the process that runs it is lost, unless it renews
	created  BIGINT NOT NULL,
	ended    BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX sync_runs_owner ON sync_runs (owner, created, id, account);
CREATE INDEX sync_runs_live ON sync_runs (owner, lapses, account) WHERE ended = 0;
CREATE INDEX sync_runs_created ON sync_runs (created);

-- +goose Down
DROP TABLE sync_runs;
