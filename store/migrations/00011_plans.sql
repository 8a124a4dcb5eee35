-- +goose Up
-- With the phase in them SQLite, which has not counted its rows, takes them rather than the index of all that an owner has.
DROP INDEX jobs_started;
CREATE INDEX jobs_started ON jobs (owner, phase, task) WHERE phase = 'started';
DROP INDEX jobs_live;
CREATE INDEX jobs_live ON jobs (owner, phase, account) WHERE phase <> 'ended';

-- +goose Down
DROP INDEX jobs_live;
CREATE INDEX jobs_live ON jobs (owner, account) WHERE phase <> 'ended';
DROP INDEX jobs_started;
CREATE INDEX jobs_started ON jobs (owner, task) WHERE phase = 'started';
