-- +goose Up
-- The trace context of the request that accepted a job, with which the visits that work for the job are linked. Empty if it was not traced.
ALTER TABLE jobs ADD COLUMN traceparent TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE jobs DROP COLUMN traceparent;
