-- +goose Up
-- Whether the account is to be compared with its platform's list before it submits anything, see dispatch.Restored.
ALTER TABLE accounts ADD COLUMN restored BIGINT NOT NULL DEFAULT 0;
-- Jobs at platforms that carry this installation's tag and are not known here, found after the database was set back.
CREATE TABLE unrecognized (
	account  TEXT NOT NULL,
	ref_base TEXT NOT NULL,
	ref_id   TEXT NOT NULL,
	tag      TEXT NOT NULL,
	status   TEXT NOT NULL,
	found    BIGINT NOT NULL,
	PRIMARY KEY (account, ref_base, ref_id)
);

-- +goose Down
DROP TABLE unrecognized;
ALTER TABLE accounts DROP COLUMN restored;
