-- +goose Up

-- Browsers that are signed in to the page. id is a hash of the browser's secret; what is sealed can be read only with a key that is not here.
CREATE TABLE sessions (
	id      TEXT PRIMARY KEY,
	owner   TEXT NOT NULL,
	issuer  TEXT NOT NULL,
	sid     TEXT NOT NULL,
	key     TEXT NOT NULL,
	sealed  TEXT NOT NULL,
	created BIGINT NOT NULL,
	ends    BIGINT NOT NULL,
	version BIGINT NOT NULL DEFAULT 1
);
CREATE INDEX sessions_of_owner ON sessions (owner, created);
CREATE INDEX sessions_of_provider ON sessions (issuer, sid);
CREATE INDEX sessions_by_end ON sessions (ends);

-- +goose Down
DROP TABLE sessions;
