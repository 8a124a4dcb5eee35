-- +goose Up
-- Jobs and tasks that clients created and have not started, see dispatch.Unstarted. Their ids are from the sequences of jobs and tasks.
CREATE TABLE unstarted (
	job     BIGINT NOT NULL, -- 0: a task
	task    BIGINT NOT NULL, -- 0: a job
	owner   TEXT NOT NULL,
	account TEXT NOT NULL,
	title   TEXT NOT NULL,
	body    TEXT NOT NULL,
	created BIGINT NOT NULL,
	updated BIGINT NOT NULL,
	expires BIGINT NOT NULL,
	version BIGINT NOT NULL DEFAULT 1,
	PRIMARY KEY (job, task)
);
CREATE INDEX unstarted_owner ON unstarted (owner, created);
CREATE INDEX unstarted_expires ON unstarted (expires);

-- +goose Down
DROP TABLE unstarted;
