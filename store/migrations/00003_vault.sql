-- +goose Up

-- Leaves to act for users who are away. What is sealed can be read only with a key that is not here.
CREATE TABLE grants (
	id      TEXT PRIMARY KEY,
	owner   TEXT NOT NULL,
	issuer  TEXT NOT NULL,
	kind    TEXT NOT NULL,
	key     TEXT NOT NULL,
	sealed  TEXT NOT NULL,
	created BIGINT NOT NULL,
	renewed BIGINT NOT NULL,
	expires BIGINT NOT NULL,
	version BIGINT NOT NULL DEFAULT 1,
	UNIQUE (owner, issuer)
);

-- Tokens that processes share, sealed too, until they end.
CREATE TABLE tokens (
	name    TEXT PRIMARY KEY,
	key     TEXT NOT NULL,
	sealed  TEXT NOT NULL,
	expires BIGINT NOT NULL
);

-- +goose Down
DROP TABLE tokens;
DROP TABLE grants;
