package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// defectVariable names, in the environment of a child process, what is wrong with the plain platform there.
const defectVariable = "EODISPATCH_TEST_DEFECT"

func TestPlatform_Plain(t *testing.T) {
	for name, two := range map[string]bool{"one step": false, "two steps": true} {
		t.Run(name, func(t *testing.T) {
			TestPlatform(t, func(*testing.T) (dispatch.Platform, Remote) {
				p := &plain{two: two, defect: os.Getenv(defectVariable), mishaps: map[Call]Failure{},
					jobs: map[dispatch.Ref]*plainJob{}}
				return p, p
			})
		})
	}
}

// TestPlatform_FindsDefects runs the suite on platforms with one defect each: it must fail, and in the right place.
func TestPlatform_FindsDefects(t *testing.T) {
	for defect, place := range map[string]string{
		"rounds numbers":       "parameters_arrive",
		"guesses words":        "every_status_word",
		"shows the token":      "a_failed_submit",
		"forgets the pause":    "a_failed_submit",
		"calls doubt unsent":   "a_failed_start",
		"repeats what was cut": "a_submit_that_was_cut",
		"starts twice":         "a_known_job",
		"gives early results":  "results_before_the_end",
		"ignores its context":  "a_done_context",
		"lacks an ability":     "abilities",
		"succeeds namelessly":  "an_answer_that_names",
	} {
		t.Run(defect, func(t *testing.T) {
			t.Parallel()
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPlatform_Plain$")
			child.Env = append(os.Environ(), defectVariable+"="+defect)
			out, err := child.CombinedOutput()
			if _, failed := errors.AsType[*exec.ExitError](err); !failed || !strings.Contains(string(out), "/"+place) {
				t.Errorf("the suite does not fail at %s: %v\n%s", place, err, out)
			}
		})
	}
}

// plain is a platform in memory, and its own Remote.
type plain struct {
	two    bool
	defect string

	mu      sync.Mutex
	hold    bool
	mishaps map[Call]Failure
	jobs    map[dispatch.Ref]*plainJob
	started int
}

type plainJob struct {
	parameters json.RawMessage
	started    bool
	held       bool
	word       string
}

const plainSecret = "s3cr3t"

func (*plain) Token() dispatch.Token { return dispatch.Token{Secret: plainSecret} }
func (*plain) Service() dispatch.Service {
	return dispatch.Service{Endpoint: "https://plain.test", Application: "x"}
}
func (p *plain) Abilities() []string {
	if p.defect == "lacks an ability" {
		return []string{"cancel"}
	}
	return nil
}

func (*plain) Words() map[string]dispatch.Status {
	return map[string]dispatch.Status{"queued": dispatch.Queued, "running": dispatch.Running,
		"finished": dispatch.Finished}
}

func (p *plain) Sent(r dispatch.Ref) map[string]json.RawMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := map[string]json.RawMessage{}
	json.Unmarshal(p.jobs[r].parameters, &sent)
	if p.defect == "rounds numbers" {
		sent["number"] = json.RawMessage("1.1")
	}
	return sent
}

func (p *plain) Counts() (created, started, canceled int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.jobs), p.started, 0
}

func (p *plain) RunForAnHour() { p.hold = true }

func (p *plain) SetStatus(r dispatch.Ref, word string) { p.jobs[r].word = word }

func (p *plain) Fail(c Call, m Failure) { p.mishaps[c] = m }

func (p *plain) TwoStep() bool { return p.two }

func (p *plain) Base(dispatch.Service) (string, error) { return "", nil }

func (p *plain) Submit(ctx context.Context, _ dispatch.Token, s dispatch.Submission) (step dispatch.SubmitResult,
	err error) {
	call := CallSubmit
	if s.Ref != (dispatch.Ref{}) {
		call = CallStart
	}
	m := p.mishaps[call]
	err = p.meet(ctx, m, true)
	if err == nil || m.After {
		step = p.take(s)
	}
	if err != nil && m.Cut && p.defect == "repeats what was cut" {
		p.take(s)
	}
	if m.Nameless && p.defect != "succeeds namelessly" {
		err = &dispatch.Error{Kind: dispatch.Uncertain, Op: "plain.Submit", Text: "It gave no name."}
	}
	if err != nil || m.Nameless {
		return dispatch.SubmitResult{}, err
	}
	return step, nil
}

// take is what the server does with a request.
func (p *plain) take(s dispatch.Submission) dispatch.SubmitResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	j, ref := p.jobs[s.Ref], s.Ref
	if j == nil {
		ref, j = dispatch.Ref{ID: fmt.Sprint(len(p.jobs))}, &plainJob{parameters: s.Parameters}
		p.jobs[ref] = j
		if p.two {
			return dispatch.SubmitResult{Ref: ref}
		}
	}
	if !j.started || !j.held || p.defect == "starts twice" {
		p.started++
	}
	j.started, j.held = true, p.hold
	return dispatch.SubmitResult{Ref: ref, Started: true}
}

func (p *plain) Status(ctx context.Context, _ dispatch.Token, r dispatch.Ref) (dispatch.Report, error) {
	if err := p.meet(ctx, p.mishaps[CallStatus], false); err != nil {
		return dispatch.Report{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	word := p.jobs[r].word
	if word == "" {
		word = "finished"
	}
	status, known := p.Words()[word]
	if !known && p.defect == "guesses words" {
		return dispatch.Report{Status: dispatch.Running}, nil
	} else if !known {
		status = dispatch.Unknown
	}
	return dispatch.Report{Status: status}, nil
}

func (p *plain) Results(ctx context.Context, _ dispatch.Token, r dispatch.Ref) (json.RawMessage, error) {
	if err := p.meet(ctx, p.mishaps[CallResults], false); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.jobs[r].held && p.defect != "gives early results" {
		return nil, &dispatch.Error{Kind: dispatch.Conflict, Op: "plain.Results", Text: "It has not finished."}
	}
	return json.RawMessage(
		`{"type":"Collection","stac_version":"1.0.0","id":"x","extent":{"spatial":{"bbox":[[0,0,1,1]]},
		"temporal":{"interval":[[null,null]]}},"assets":{"a":{"href":"https://plain.test/a"}}}`), nil
}

// meet is the error that a mishap means to a client; effect: the request has one.
func (p *plain) meet(ctx context.Context, m Failure, effect bool) error {
	fail := func(k dispatch.Kind) error {
		e := &dispatch.Error{Kind: k, Op: "plain", Text: "It went wrong.", RetryAfter: m.RetryAfter}
		if p.defect == "shows the token" {
			e.Text = "It went wrong with " + plainSecret
		}
		if p.defect == "forgets the pause" {
			e.RetryAfter = 0
		}
		return e
	}
	doubt := dispatch.Unavailable
	if effect && p.defect != "calls doubt unsent" {
		doubt = dispatch.Uncertain
	}
	if ctx.Err() != nil && p.defect != "ignores its context" {
		return fail(dispatch.Unavailable)
	}
	if m.Latency > 0 {
		select {
		case <-ctx.Done():
			return fail(doubt)
		case <-time.After(m.Latency):
		}
	}
	kinds := map[int]dispatch.Kind{400: dispatch.Invalid, 401: dispatch.SignInRequired, 403: dispatch.Forbidden,
		404: dispatch.NotFound, 429: dispatch.Busy}
	kind, known := kinds[m.Status]
	switch {
	case known:
		return fail(kind)
	case m.Status == 503 && m.RetryAfter > 0:
		return fail(dispatch.Busy)
	case m.Cut, m.Status >= 500:
		return fail(doubt)
	case m.Endless, m.Status >= 300, m.Page && !effect:
		return fail(dispatch.BadUpstream)
	}
	return nil
}
