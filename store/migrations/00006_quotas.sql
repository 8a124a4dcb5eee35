-- +goose Up
-- A user's jobs at one account are counted from the indexes alone.
DROP INDEX jobs_live;
CREATE INDEX jobs_live ON jobs (owner, account) WHERE phase <> 'ended';
DROP INDEX jobs_owner;
CREATE INDEX jobs_owner ON jobs (owner, created, account);

-- +goose Down
DROP INDEX jobs_owner;
CREATE INDEX jobs_owner ON jobs (owner, created);
DROP INDEX jobs_live;
CREATE INDEX jobs_live ON jobs (owner) WHERE phase <> 'ended';
