-- +goose Up

-- Ends of jobs of tasks of which a hook is to be told, not looked at yet: see store/task_events.go. Triggers on jobs insert them (migration 73).
CREATE TABLE task_marks (
	task  BIGINT NOT NULL,
	job   BIGINT NOT NULL,
	epoch BIGINT NOT NULL, -- jobs.turn
	PRIMARY KEY (task, job, epoch)
);

-- +goose Down
DROP TABLE task_marks;
