package openapi

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/dispatch"
)

// CheckQuery returns the faults of a query, as it stands in the URL, by the schemas of its parameters in the document.
// Parameters that are not known are ignored.
func CheckQuery(params []*huma.Param, raw string) (faults []dispatch.Fault) {
	query, err := url.ParseQuery(raw)
	if err != nil { // what cannot be read would be missing without a word
		return []dispatch.Fault{{Loc: []any{"query"}, Type: "value_error",
			Msg: "The query cannot be read: " + err.Error() + "; write % as %25 and ; as %3B"}}
	}
	for _, p := range params {
		texts, given := query[p.Name]
		if p.In != "query" || !given {
			continue
		}
		add := func(kind, msg string, at ...any) {
			faults = append(faults, dispatch.Fault{Loc: append([]any{"query", p.Name}, at...), Type: kind, Msg: msg})
		}
		if p.Schema.Type != huma.TypeArray {
			checkText(p.Schema, texts[0], func(kind, msg string) { add(kind, msg) })
			continue
		}
		if most := p.Schema.MaxItems; most != nil && len(texts) > *most {
			add("too_long", "List should have at most "+plural(*most, "item"))
			continue
		}
		for i, text := range texts {
			checkText(p.Schema.Items, text, func(kind, msg string) { add(kind, msg, i) })
		}
	}
	return faults
}

// checkText reports what is wrong with the text of a value in a query.
func checkText(s *huma.Schema, text string, fault func(kind, msg string)) {
	switch s.Type {
	case huma.TypeBoolean:
		if _, err := strconv.ParseBool(text); err != nil {
			fault("bool_parsing", "Input should be a valid boolean, unable to interpret input")
		}
	case huma.TypeInteger, huma.TypeNumber:
		_, err := strconv.Atoi(text)
		n, bad := strconv.ParseFloat(text, 64)
		switch {
		case s.Type == huma.TypeInteger && err != nil && !errors.Is(err, strconv.ErrRange):
			fault("int_parsing", "Input should be a valid integer, unable to parse string as an integer")
		case math.IsNaN(n) || bad != nil && !errors.Is(bad, strconv.ErrRange):
			fault("float_parsing", "Input should be a valid number, unable to parse string as a number")
		case s.Minimum != nil && n < *s.Minimum:
			fault("greater_than_equal", fmt.Sprintf("Input should be greater than or equal to %.15g", *s.Minimum))
		case s.Maximum != nil && n > *s.Maximum:
			fault("less_than_equal", fmt.Sprintf("Input should be less than or equal to %.15g", *s.Maximum))
		}
	default:
		_, err := time.Parse(time.RFC3339, text)
		switch {
		case !utf8.ValidString(text):
			fault("string_unicode", "Input should be a valid string, unable to read it as UTF-8")
		case s.Format == "date-time" && err != nil:
			fault("datetime_parsing", "Input should be a date and time of RFC 3339")
		case s.MaxLength != nil && utf8.RuneCountInString(text) > *s.MaxLength:
			fault("string_too_long", "String should have at most "+plural(*s.MaxLength, "character"))
		case len(s.Enum) > 0 && !slices.Contains(s.Enum, any(text)):
			fault("enum", "Input should be "+alternatives(s.Enum))
		}
	}
}

// Switch returns a boolean of a query that was checked.
func Switch(query url.Values, name string, otherwise bool) bool {
	if on, err := strconv.ParseBool(query.Get(name)); err == nil {
		return on
	}
	return otherwise
}

// Integer returns an integer of a query that was checked.
func Integer(query url.Values, name string, otherwise int) int {
	if !query.Has(name) {
		return otherwise
	}
	n, _ := strconv.Atoi(query.Get(name)) // of a number beyond all ints, the greatest or the least one
	return n
}

// Seconds returns a number of seconds of a query that was checked, at least and at most as given.
func Seconds(query url.Values, name string, otherwise, least, most time.Duration) time.Duration {
	if !query.Has(name) {
		return otherwise
	}
	n, _ := strconv.ParseFloat(query.Get(name), 64) // of a number beyond all, an infinite one
	return time.Duration(min(max(n, least.Seconds()), most.Seconds()) * float64(time.Second))
}

// Time returns a time of a query that was checked; zero if there is none.
func Time(query url.Values, name string) time.Time {
	at, _ := time.Parse(time.RFC3339, query.Get(name))
	return at
}

// Query returns the query of a request.
func (r *Request) Query() url.Values {
	u := r.HTTP.URL()
	return u.Query()
}
