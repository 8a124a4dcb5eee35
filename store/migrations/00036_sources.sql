-- +goose Up
-- What was last read from each source of the catalogue of services, see dispatch.Sources.
CREATE TABLE sources (
	name      TEXT PRIMARY KEY,
	documents TEXT NOT NULL DEFAULT '[]', -- JSON, see dispatch.SourceDocument
	read      BIGINT NOT NULL DEFAULT 0,
	failure   TEXT NOT NULL DEFAULT '',
	revision  BIGINT NOT NULL DEFAULT 0,
	claim     BIGINT NOT NULL DEFAULT 0, -- number of the last claim
	due       BIGINT NOT NULL DEFAULT 0  -- when a process may claim it
);

-- +goose Down
DROP TABLE sources;
