-- +goose Up
-- What was last heard of platforms.
CREATE TABLE platforms (
	name     TEXT PRIMARY KEY,
	answered BIGINT NOT NULL, -- when it last answered
	failed   BIGINT NOT NULL, -- when it last did not
	failure  TEXT NOT NULL
);

-- +goose Down
DROP TABLE platforms;
