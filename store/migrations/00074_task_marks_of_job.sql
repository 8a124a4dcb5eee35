-- +goose Up
-- So that what belongs to a job is found. The table came with this version, so it is empty where others write.
CREATE INDEX task_marks_of_job ON task_marks (job);

-- +goose Down
DROP INDEX task_marks_of_job;
