-- +goose Up
-- When a process last noted that it serves a platform.
CREATE TABLE served (
	platform TEXT PRIMARY KEY,
	seen     BIGINT NOT NULL
);

-- The generation of the lease under which the request begun last was intended.
ALTER TABLE jobs ADD COLUMN intent_lease BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE jobs DROP COLUMN intent_lease;
DROP TABLE served;
