package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
)

// The results of checks in JSON.
const (
	resultOK       = "ok"
	resultUnproven = "not_checked" // in part
	resultFailed   = "failed"
)

// reportedFinding is a finding in JSON.
type reportedFinding struct {
	Check  string `json:"check"`
	Result string `json:"result"`
	Detail string `json:"detail,omitempty"` // what is wrong, or was not checked
	Advice string `json:"advice,omitempty"`
}

// printFindings prints findings and notes as a JSON object.
func printFindings(w io.Writer, findings []finding, notes []string) error {
	all := struct {
		Checks []reportedFinding `json:"checks"`
		Notes  []string          `json:"notes"`
	}{[]reportedFinding{}, append([]string{}, notes...)}
	for _, f := range findings {
		r := reportedFinding{Check: f.name, Result: resultOK}
		switch {
		case f.err != nil:
			r.Result, r.Detail, r.Advice = resultFailed, explained(f.err), f.advice
		case f.unproven != "":
			r.Result, r.Detail, r.Advice = resultUnproven, f.unproven, f.advice
		}
		all.Checks = append(all.Checks, r)
	}
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	lines.SetIndent("", "  ")
	return lines.Encode(all)
}

// agedLate is for how long what is older than retention keeps may remain: running brokers delete it every hour.
const agedLate = 3 * time.Hour

// agedFinding checks that what is older than the settings keep has been deleted, if anything is to be. unopened is why
// the database could not be opened.
func agedFinding(ctx context.Context, db *store.Store, unopened error, r dispatch.Retention,
	within time.Duration) finding {
	f := finding{name: "retention",
		advice: "check that a broker runs, and look for `deleting what is older than retention failed` in its log; " +
			"`eodispatch purge` deletes it now"}
	if r == (dispatch.Retention{}) {
		f.name = "retention: everything is kept for ever"
		return f
	}
	if unopened != nil {
		f.err, f.advice = unopened, "see the check of the database"
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for _, keep := range []*time.Duration{&r.Results, &r.Requests, &r.Jobs} {
		if *keep > 0 {
			*keep += agedLate
		}
	}
	a, err := db.Aged(ctx, r)
	if f.err = err; err == nil && a != (dispatch.Aged{}) {
		f.err = fmt.Errorf(
			"%d results, parameters of %d jobs, %d jobs and %d tasks are older than `retention`, but not deleted",
			a.Results, a.Requests, a.Jobs, a.Tasks)
	}
	return f
}
