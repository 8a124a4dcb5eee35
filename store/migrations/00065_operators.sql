-- +goose Up
-- What an operator holds: a platform by its name, or an account.
CREATE TABLE operator_holds (
	scope   TEXT PRIMARY KEY,
	notice  TEXT NOT NULL,
	held_by TEXT NOT NULL,
	since   BIGINT NOT NULL
);

-- +goose Down
DROP TABLE operator_holds;
