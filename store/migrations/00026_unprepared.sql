-- +goose Up
-- Waiting jobs whose document could not be fetched: while no slot is free, only they are looked at. With step and attention in it SQLite,
-- which has not counted its rows, takes it rather than jobs_step.
CREATE INDEX jobs_unprepared ON jobs (account, step, attention, due, id) WHERE step = 'wait' AND attention = 'application_unreachable';

-- +goose Down
DROP INDEX jobs_unprepared;
