-- +goose Up
-- When a process last noted that it serves a platform.
CREATE TABLE served (
	platform TEXT PRIMARY KEY,
	seen     BIGINT NOT NULL
);

-- +goose Down
DROP TABLE served;
