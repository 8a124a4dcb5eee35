-- +goose Up
-- The processes that users have stored, see dispatch.Processes.
CREATE TABLE processes (
	owner   TEXT NOT NULL,
	id      TEXT NOT NULL,
	body    TEXT NOT NULL, -- JSON, as it was sent
	bytes   BIGINT NOT NULL,
	updated BIGINT NOT NULL,
	PRIMARY KEY (owner, id)
);

-- +goose Down
DROP TABLE processes;
