-- +goose Up
-- What all programs on this database share and none configures.
CREATE TABLE settings (
	name  TEXT PRIMARY KEY,
	value TEXT NOT NULL
);

-- +goose Down
DROP TABLE settings;
