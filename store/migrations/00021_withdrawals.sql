-- +goose Up
-- Users who took back their permission to act for them while they are away, until they give it again.
CREATE TABLE withdrawals (
	owner  TEXT NOT NULL,
	issuer TEXT NOT NULL,
	PRIMARY KEY (owner, issuer)
);
-- Grants that are in use no more and that the identity provider is yet to revoke; sealed as in grants.
CREATE TABLE revocations (
	id      TEXT PRIMARY KEY,
	owner   TEXT NOT NULL,
	issuer  TEXT NOT NULL,
	kind    TEXT NOT NULL,
	key     TEXT NOT NULL,
	sealed  TEXT NOT NULL,
	created BIGINT NOT NULL
);

-- +goose Down
DROP TABLE revocations;
DROP TABLE withdrawals;
