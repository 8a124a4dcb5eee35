-- +goose Up
-- Which request slots of a platform are given away, see dispatch.Timetable.
CREATE TABLE timetables (
	platform TEXT PRIMARY KEY,
	free     BIGINT NOT NULL DEFAULT 0,
	kept     BIGINT NOT NULL DEFAULT 0,
	seen     BIGINT NOT NULL DEFAULT 0
);
DROP TABLE rates;
ALTER TABLE accounts ADD COLUMN reading_slot BIGINT NOT NULL DEFAULT 0; -- that is booked; 0: none
ALTER TABLE accounts ADD COLUMN acting_slot BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE accounts DROP COLUMN acting_slot;
ALTER TABLE accounts DROP COLUMN reading_slot;
CREATE TABLE rates (
	platform TEXT PRIMARY KEY,
	tat      BIGINT NOT NULL
);
DROP TABLE timetables;
