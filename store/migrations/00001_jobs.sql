-- Holds unchanged on SQLite and on PostgreSQL. Times are microseconds since 1970, 0 is no time. JSON is kept as text, to
-- the byte.

-- +goose Up

-- The account's row is the engine's queue.
CREATE TABLE accounts (
	id             TEXT PRIMARY KEY,
	generation     BIGINT NOT NULL DEFAULT 0,
	lease_until    BIGINT NOT NULL DEFAULT 0,
	wakes          BIGINT NOT NULL DEFAULT 0,
	due            BIGINT NOT NULL DEFAULT 0,
	hold           BIGINT NOT NULL DEFAULT 0, -- until when nothing is submitted
	hold_attention TEXT NOT NULL DEFAULT '',
	hold_notice    TEXT NOT NULL DEFAULT ''
);
CREATE INDEX accounts_due ON accounts (due, id) WHERE due > 0;
CREATE INDEX accounts_leased ON accounts (lease_until) WHERE lease_until > 0;

CREATE TABLE tasks (
	id        BIGINT PRIMARY KEY,
	owner     TEXT NOT NULL,
	account   TEXT NOT NULL,
	request   TEXT NOT NULL, -- what its jobs share
	dimension TEXT NOT NULL,
	hidden    BOOLEAN NOT NULL DEFAULT FALSE,
	created   BIGINT NOT NULL
);

CREATE TABLE jobs (
	id        BIGINT PRIMARY KEY,
	task      BIGINT NOT NULL, -- 0: none
	number    BIGINT NOT NULL,
	owner     TEXT NOT NULL,
	account   TEXT NOT NULL,
	base      TEXT NOT NULL,
	desired   TEXT NOT NULL,
	hidden    BOOLEAN NOT NULL DEFAULT FALSE,
	phase     TEXT NOT NULL,
	turn      BIGINT NOT NULL DEFAULT 0,
	attempt   BIGINT NOT NULL DEFAULT 0,
	send_by   BIGINT NOT NULL DEFAULT 0,
	ref_base  TEXT NOT NULL DEFAULT '',
	ref_id    TEXT NOT NULL DEFAULT '',
	strays    TEXT NOT NULL DEFAULT '', -- JSON, '' for none
	status    TEXT NOT NULL,
	seen      TEXT NOT NULL DEFAULT '',
	progress  DOUBLE PRECISION,
	costs     DOUBLE PRECISION,
	attention TEXT NOT NULL DEFAULT '',
	notice    TEXT NOT NULL DEFAULT '',
	failure   TEXT NOT NULL DEFAULT '',
	due       BIGINT NOT NULL,
	looks     BIGINT NOT NULL DEFAULT 0,
	tries     BIGINT NOT NULL DEFAULT 0,
	awaited   BOOLEAN NOT NULL,
	created   BIGINT NOT NULL,
	updated   BIGINT NOT NULL,
	checked   BIGINT NOT NULL DEFAULT 0,
	moved     BIGINT NOT NULL,
	version   BIGINT NOT NULL DEFAULT 1,

	-- Who waits together, see dispatch.Line.
	line      TEXT NOT NULL GENERATED ALWAYS AS (owner || '/' || CAST(task AS TEXT)) STORED,
	-- What a visit has to do for it once it is due. A cancel waits until what is in doubt is over, and until there is
	-- something to cancel.
	step      TEXT NOT NULL GENERATED ALWAYS AS (CASE
		WHEN strays <> '' THEN 'cancel'
		WHEN phase = 'waiting' THEN 'wait'
		WHEN phase = 'ended' THEN 'none'
		WHEN phase = 'creating' THEN 'settle'
		WHEN desired = 'canceled' THEN 'cancel'
		WHEN phase = 'starting' THEN 'settle'
		WHEN phase = 'created' THEN 'start'
		ELSE 'learn' END) STORED
);
CREATE INDEX jobs_step ON jobs (account, step, due, id);
CREATE INDEX jobs_line ON jobs (account, line, due, id) WHERE phase = 'waiting';
CREATE INDEX jobs_held ON jobs (account) WHERE phase NOT IN ('waiting', 'ended');
CREATE INDEX jobs_single ON jobs (owner, created, id) WHERE task = 0;
CREATE INDEX jobs_hidden ON jobs (moved) WHERE hidden;

-- What was asked for: a dispatch.Request, or for a task's job its value.
CREATE TABLE requests (
	job  BIGINT PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
	body TEXT NOT NULL
);

CREATE TABLE results (
	job  BIGINT PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
	body TEXT NOT NULL
);

-- Names that clients gave to their requests.
CREATE TABLE keys (
	owner       TEXT NOT NULL,
	name        TEXT NOT NULL,
	fingerprint TEXT NOT NULL,
	task        BIGINT NOT NULL,
	job         BIGINT NOT NULL,
	created     BIGINT NOT NULL,
	PRIMARY KEY (owner, name)
);
CREATE INDEX keys_created ON keys (created);

CREATE TABLE rates (
	platform TEXT PRIMARY KEY,
	tat      BIGINT NOT NULL -- theoretical arrival time: when the next slot is
);

-- The last id that was given away. One row, because SQLite and PostgreSQL number rows in different words.
CREATE TABLE ids (
	name TEXT PRIMARY KEY,
	last BIGINT NOT NULL
);
INSERT INTO ids (name, last) VALUES ('job', 0), ('task', 0);

CREATE TABLE installation (
	one  BIGINT PRIMARY KEY CHECK (one = 1),
	name TEXT NOT NULL
);

-- +goose Down
DROP TABLE installation;
DROP TABLE ids;
DROP TABLE rates;
DROP TABLE keys;
DROP TABLE results;
DROP TABLE requests;
DROP TABLE jobs;
DROP TABLE tasks;
DROP TABLE accounts;
