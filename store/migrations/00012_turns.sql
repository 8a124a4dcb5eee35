-- +goose Up
-- Whose turn it is: which of the slots that an account has given away its lines got last, and its owners ("OWNER/", the line's
-- name without the task). No row: none, or so long ago that it does not matter.
CREATE TABLE turns (
	account TEXT NOT NULL,
	line    TEXT NOT NULL,
	served  BIGINT NOT NULL,
	PRIMARY KEY (account, line)
);
ALTER TABLE accounts ADD COLUMN served BIGINT NOT NULL DEFAULT 0; -- how many slots it has given away

-- +goose Down
ALTER TABLE accounts DROP COLUMN served;
DROP TABLE turns;
