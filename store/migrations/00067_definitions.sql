-- +goose Up
-- The bytes of a process that was sent with a task's request, which is stored as a document. It counts in the bytes of its owner's requests.
ALTER TABLE tasks ADD COLUMN sent BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE tasks DROP COLUMN sent;
