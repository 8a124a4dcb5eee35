package openapi

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// AlsoAtPlatform reads the query parameter platform.
func (r *Request) AlsoAtPlatform() (bool, error) {
	u := r.HTTP.URL()
	var faults []dispatch.Fault
	on := SwitchOf(u.Query(), "platform", false, &faults)
	if faults != nil {
		return false, &dispatch.Error{Kind: dispatch.Invalid, Op: "api.delete",
			Text: "The query parameter platform is true or false.", Faults: faults}
	}
	return on, nil
}

// Number reads an integer between least and most from the query; otherwise is its default.
func (r *Request) Number(name string, otherwise, least, most int) (int, []dispatch.Fault) {
	u := r.HTTP.URL()
	texts, given := u.Query()[name]
	if !given {
		return otherwise, nil
	}
	n, err := strconv.Atoi(texts[0])
	if err != nil || n < least || n > most || len(texts) > 1 {
		return 0, []dispatch.Fault{{Loc: []any{"query", name}, Type: "int_range",
			Msg: fmt.Sprintf("Input should be one integer from %d to %d", least, most)}}
	}
	return n, nil
}

func SwitchOf(query url.Values, name string, otherwise bool, faults *[]dispatch.Fault) bool {
	if !query.Has(name) {
		return otherwise
	}
	on, err := strconv.ParseBool(query.Get(name))
	if err != nil {
		*faults = append(*faults, dispatch.Fault{Loc: []any{"query", name}, Type: "bool_parsing",
			Msg: "Input should be a valid boolean, unable to interpret input"})
	}
	return on
}

const longestWait = time.Minute

func (r *Request) Wait() (time.Duration, []dispatch.Fault) {
	u := r.HTTP.URL()
	query := u.Query()
	if !query.Has("wait") {
		return 0, nil
	}
	seconds, err := strconv.ParseFloat(query.Get("wait"), 64)
	if math.IsNaN(seconds) || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, []dispatch.Fault{{Loc: []any{"query", "wait"}, Type: "float_parsing",
			Msg: "Input should be a valid number, unable to parse string as a number"}}
	}
	return time.Duration(min(max(seconds, 0), longestWait.Seconds()) * float64(time.Second)), nil
}
