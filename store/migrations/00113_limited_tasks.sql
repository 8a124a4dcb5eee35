-- +goose Up
-- So that tasks that start nothing for now are counted for the metrics without a look at the others.
CREATE INDEX tasks_limited ON tasks (paused_for) WHERE paused AND NOT hidden;

-- +goose Down
DROP INDEX tasks_limited;
