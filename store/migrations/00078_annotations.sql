-- +goose Up
-- See dispatch.Annotations: JSON, '' for none. Lists are filtered by the tables of labels, which hold the same labels of tasks, and of jobs of no task.
ALTER TABLE jobs ADD COLUMN annotations TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN annotations TEXT NOT NULL DEFAULT '';

CREATE TABLE job_labels (
	job     BIGINT NOT NULL REFERENCES jobs ON DELETE CASCADE,
	owner   TEXT NOT NULL,
	name    TEXT NOT NULL,
	value   TEXT NOT NULL,
	created BIGINT NOT NULL, -- of the job
	PRIMARY KEY (job, name)
);
CREATE INDEX job_labels_found ON job_labels (owner, name, value, created, job);

CREATE TABLE task_labels (
	task    BIGINT NOT NULL REFERENCES tasks ON DELETE CASCADE,
	owner   TEXT NOT NULL,
	name    TEXT NOT NULL,
	value   TEXT NOT NULL,
	created BIGINT NOT NULL, -- of the task
	PRIMARY KEY (task, name)
);
CREATE INDEX task_labels_found ON task_labels (owner, name, value, created, task);

-- +goose Down
DROP TABLE task_labels;
DROP TABLE job_labels;
ALTER TABLE tasks DROP COLUMN annotations;
ALTER TABLE jobs DROP COLUMN annotations;
