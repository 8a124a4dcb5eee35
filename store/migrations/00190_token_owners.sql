-- +goose Up
-- The user of a shared token; '' for nobody's.
ALTER TABLE tokens ADD COLUMN owner TEXT NOT NULL DEFAULT '';
CREATE INDEX tokens_of_owner ON tokens (owner);
-- Revocations outlast the data of their users, so they have the SHA-256 of the owner, to which their text is bound, too.
DROP TABLE revocations;
CREATE TABLE revocations (
	id         TEXT PRIMARY KEY,
	owner_hash TEXT NOT NULL,
	issuer     TEXT NOT NULL,
	kind       TEXT NOT NULL,
	key        TEXT NOT NULL,
	sealed     TEXT NOT NULL,
	created    BIGINT NOT NULL
);

-- +goose Down
DROP TABLE revocations;
CREATE TABLE revocations (
	id      TEXT PRIMARY KEY,
	owner   TEXT NOT NULL,
	issuer  TEXT NOT NULL,
	kind    TEXT NOT NULL,
	key     TEXT NOT NULL,
	sealed  TEXT NOT NULL,
	created BIGINT NOT NULL
);
DROP INDEX tokens_of_owner;
ALTER TABLE tokens DROP COLUMN owner;
