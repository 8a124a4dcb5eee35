-- +goose Up
-- What users' runs cost by the labels that a job, or its task, had when the platform reported it, like ledger. The triggers of migration 141 write it.
CREATE TABLE label_costs (
	owner   TEXT NOT NULL,
	name    TEXT NOT NULL, -- the key of the label
	month   TEXT NOT NULL, -- 2026-11
	account TEXT NOT NULL,
	unit    TEXT NOT NULL,
	value   TEXT NOT NULL, -- of the label
	shard   BIGINT NOT NULL DEFAULT 0,
	costs   DOUBLE PRECISION NOT NULL,
	runs    BIGINT NOT NULL,
	PRIMARY KEY (owner, name, month, account, unit, value, shard)
);
CREATE INDEX label_costs_month ON label_costs (month);

-- +goose Down
DROP TABLE label_costs;
