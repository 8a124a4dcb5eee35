-- +goose Up
-- What Purge deletes, and counts that are not merged yet, are found without reading anything else.
CREATE INDEX tasks_hidden ON tasks (id) WHERE hidden;
CREATE INDEX tokens_by_end ON tokens (expires);
CREATE INDEX period_counts_by_period ON period_counts (period);
CREATE INDEX line_counts_unmerged ON line_counts (account, owner, task, shard) WHERE shard <> 0;
CREATE INDEX account_counts_unmerged ON account_counts (account, shard) WHERE shard <> 0;
CREATE INDEX owner_counts_unmerged ON owner_counts (owner, account, shard) WHERE shard <> 0;
CREATE INDEX period_counts_unmerged ON period_counts (owner, account, period, shard) WHERE shard <> 0;
CREATE INDEX task_counts_unmerged ON task_counts (task, status, shard) WHERE shard <> 0;

-- +goose Down
DROP INDEX task_counts_unmerged;
DROP INDEX period_counts_unmerged;
DROP INDEX owner_counts_unmerged;
DROP INDEX account_counts_unmerged;
DROP INDEX line_counts_unmerged;
DROP INDEX period_counts_by_period;
DROP INDEX tokens_by_end;
DROP INDEX tasks_hidden;
