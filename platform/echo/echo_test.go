package echo

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

type clock time.Time

func (c *clock) Now() time.Time { return time.Time(*c) }

func submission(parameters string) dispatch.Submission {
	return dispatch.Submission{Tag: "a.1.1", Request: dispatch.Request{Service: Service(),
		Parameters: json.RawMessage(parameters)}}
}

// TestPlatform_EndsAfterItsPause: a job runs for its pause, also for another process that knows only its id.
func TestPlatform_EndsAfterItsPause(t *testing.T) {
	now := clock(time.Unix(1_700_000_000, 0))
	got, err := New(&now).Submit(t.Context(), dispatch.Token{}, submission(`{"message":"a","pause":5}`))
	if err != nil || !got.Started || got.Result != nil || got.Ref.ID == "" {
		t.Fatalf("%+v, %v", got, err)
	}
	other := New(&now)
	if r, err := other.Status(t.Context(), dispatch.Token{}, got.Ref); err != nil || r.Status != dispatch.Running {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := other.Results(t.Context(), dispatch.Token{}, got.Ref); !dispatch.Is(err, dispatch.Conflict) {
		t.Errorf("results before the end: %v", err)
	}
	now = clock(now.Now().Add(5 * time.Second))
	if r, err := other.Status(t.Context(), dispatch.Token{}, got.Ref); err != nil || r.Status != dispatch.Finished {
		t.Errorf("%+v, %v", r, err)
	}
	if c, err := other.Results(t.Context(), dispatch.Token{}, got.Ref); err != nil || !json.Valid(c) {
		t.Errorf("%s, %v", c, err)
	}
	if _, err := other.Status(t.Context(), dispatch.Token{}, dispatch.Ref{ID: "other"}); !dispatch.Is(err,
		dispatch.NotFound) {
		t.Errorf("a job that it did not make: %v", err)
	}
}

func TestPlatform_WithoutAPauseIsDone(t *testing.T) {
	now := clock(time.Unix(1_700_000_000, 0))
	if got, err := New(&now).Submit(t.Context(), dispatch.Token{}, submission(`{"message":"a"}`)); err != nil ||
		got.Result == nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestPlatform_ChecksItsInputs(t *testing.T) {
	now := clock(time.Unix(1_700_000_000, 0))
	p := New(&now)
	for parameters, good := range map[string]bool{`{"message":"a"}`: true, `{"message":"a","pause":3600}`: true,
		`{}`: false, `{"message":1}`: false, `{"message":"a","pause":-1}`: false, `{"message":"a","pause":1.5}`: false,
		`{"message":"a","pause":3601}`: false,
		`{"message":"a","other":1}`:    false} {
		_, err := p.Check(t.Context(), dispatch.Token{}, submission(parameters).Request, nil)
		if good != (err == nil) || err != nil && !dispatch.Is(err, dispatch.Invalid) {
			t.Errorf("%s: %v", parameters, err)
		}
	}
	if _, err := p.Base(dispatch.Service{Endpoint: Endpoint, Application: "other"}); !dispatch.Is(err,
		dispatch.Invalid) {
		t.Errorf("another process: %v", err)
	}
}
