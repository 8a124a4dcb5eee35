-- +goose Up

-- What defines services, at some time. Large ones are kept once, whoever uses them.
CREATE TABLE documents (
	hash TEXT PRIMARY KEY, -- SHA-256 of the body
	body TEXT NOT NULL
);

-- The document that defined the service of a task, or of a job without one, when that was accepted.
CREATE TABLE definitions (
	task     BIGINT NOT NULL, -- 0: a job's
	job      BIGINT NOT NULL, -- 0: a task's
	owner    TEXT NOT NULL,
	platform TEXT NOT NULL,
	service  TEXT NOT NULL, -- a dispatch.Service in JSON
	document TEXT NOT NULL REFERENCES documents,
	told     TEXT NOT NULL DEFAULT '', -- the hash of the document since, if that is another
	PRIMARY KEY (task, job)
);
CREATE INDEX definitions_document ON definitions (document);

-- +goose Down
DROP TABLE definitions;
DROP TABLE documents;
