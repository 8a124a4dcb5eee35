package api

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
)

// interval is a span of time without its end.
type interval struct {
	from, to time.Time
	layout   string // of its ends, and of those of its parts
}

var errInterval = errors.New(
	"two dates or times, such as [\"2024-01-01\", \"2025-01-01\"], of which the second is later; open ends cannot be " +
		"split")

// parseInterval reads two dates or times, which are those of RFC 3339.
func parseInterval(ends []string) (i interval, err error) {
	if len(ends) != 2 {
		return i, errInterval
	}
	i.layout = time.DateOnly
	for k, at := range []*time.Time{&i.from, &i.to} {
		if *at, err = time.Parse(time.DateOnly, ends[k]); err == nil {
			continue
		}
		i.layout = time.RFC3339Nano
		if *at, err = time.Parse(time.RFC3339, ends[k]); err != nil {
			return i, errInterval
		}
	}
	if i.from, i.to = i.from.UTC(), i.to.UTC(); !i.from.Before(i.to) {
		return i, errInterval
	}
	return i, nil
}

// calendarStep is a unit of the calendar, or a number of days.
type calendarStep struct {
	days int // 0: a unit of the calendar
	unit string
}

// mostDays bounds the days of a step: ten thousand years.
const mostDays = 3_652_500

// parseStep reads a unit of the calendar, or a number of days or weeks as ISO 8601 writes it.
func parseStep(text string) (calendarStep, bool) {
	switch text {
	case "day":
		return calendarStep{days: 1}, true
	case "week", "month", "quarter", "year":
		return calendarStep{unit: text}, true
	}
	inner, begins := strings.CutPrefix(text, "P")
	number, days := strings.CutSuffix(inner, "D")
	factor := 1
	if !days {
		if number, days = strings.CutSuffix(inner, "W"); !days {
			return calendarStep{}, false
		}
		factor = 7
	}
	n, err := strconv.Atoi(number)
	if !begins || err != nil || strings.HasPrefix(number, "+") || n < 1 || n > mostDays {
		return calendarStep{}, false
	}
	return calendarStep{days: factor * n}, true
}

// next returns the first border after a time. Weeks begin on Mondays. Steps of days count from that time.
func (s calendarStep) next(at time.Time) time.Time {
	midnight := time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
	switch s.unit {
	case "week":
		return midnight.AddDate(0, 0, 7-(int(at.Weekday())+6)%7)
	case "month":
		return time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	case "quarter":
		return time.Date(at.Year(), (at.Month()-1)/3*3+4, 1, 0, 0, 0, 0, time.UTC)
	case "year":
		return time.Date(at.Year()+1, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return at.AddDate(0, 0, s.days)
}

// split returns the parts of i as JSON arrays of two texts. Each part ends where the next begins, and the last where i
// does. whole is false if there are more parts than most.
func (i interval) split(s calendarStep, most int) (parts []json.RawMessage, whole bool) {
	for from := i.from; from.Before(i.to); {
		if len(parts) == most {
			return parts, false
		}
		to := s.next(from)
		if to.After(i.to) {
			to = i.to
		}
		parts = append(parts, json.RawMessage(`["`+from.Format(i.layout)+`","`+to.Format(i.layout)+`"]`))
		from = to
	}
	return parts, true
}
