-- +goose Up
-- Changes of the jobs of tasks that are under way, see store/task_change.go. One whose process died is continued by another.
CREATE TABLE task_changes (
	task     BIGINT PRIMARY KEY REFERENCES tasks ON DELETE CASCADE,
	owner    TEXT NOT NULL,
	account  TEXT NOT NULL,
	action   TEXT NOT NULL,
	stops    BOOLEAN NOT NULL, -- no job of the task that waits is submitted meanwhile
	statuses TEXT NOT NULL, -- that the jobs must have, each between bars; '': any
	numbers  TEXT NOT NULL, -- of the jobs, as in 1-3,7; '': all
	last     BIGINT NOT NULL, -- the number of the last job
	done     BIGINT NOT NULL, -- the number up to which jobs were changed
	jobs     BIGINT NOT NULL, -- how many more jobs will be live by it
	bytes    BIGINT NOT NULL, -- of their requests
	touched  BIGINT NOT NULL
);
CREATE INDEX task_changes_owner ON task_changes (owner);

-- +goose Down
DROP TABLE task_changes;
