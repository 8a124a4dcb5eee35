-- +goose Up
-- The bytes of a job's request, counted when the job is kept, so that no request is read to add up those of a user. Jobs that a
-- program of an earlier version keeps beside this one count as 0.
ALTER TABLE jobs ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0;
UPDATE jobs SET bytes = (SELECT octet_length(requests.body) FROM requests WHERE requests.job = jobs.id)
WHERE (phase <> 'ended' OR task <> 0 AND status = 'failed' AND NOT hidden) AND EXISTS (SELECT 1 FROM requests WHERE requests.job = jobs.id);
CREATE INDEX jobs_bytes ON jobs (owner, task, bytes, phase) WHERE phase <> 'ended';

-- +goose Down
DROP INDEX jobs_bytes;
ALTER TABLE jobs DROP COLUMN bytes;
