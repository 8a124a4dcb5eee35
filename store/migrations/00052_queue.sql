-- +goose Up
-- Waiting jobs that are due at some time, which paused ones are not: their time is that of dispatch.Never. Visits read the lines of an account
-- by it, and pass over no paused line. With phase in it SQLite, which has not counted its rows, takes it rather than jobs_line.
CREATE INDEX jobs_queue ON jobs (account, phase, line, due, id) WHERE phase = 'waiting' AND due < 253370764800000000;

-- +goose Down
DROP INDEX jobs_queue;
