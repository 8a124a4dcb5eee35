-- +goose Up
CREATE INDEX jobs_attention ON jobs (task, attention) WHERE task <> 0 AND attention <> '' AND NOT hidden;

-- +goose Down
DROP INDEX jobs_attention;
