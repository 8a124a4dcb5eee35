-- +goose Up
-- Which process counts for the metrics of all, see dispatch.Censuses.
CREATE TABLE census (
	one    BIGINT PRIMARY KEY CHECK (one = 1),
	holder TEXT NOT NULL,
	ends   BIGINT NOT NULL -- of its lease
);
INSERT INTO census (one, holder, ends) VALUES (1, '', 0);

-- +goose Down
DROP TABLE census;
