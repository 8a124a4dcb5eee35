package ogcapi

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// oneJob is a broker that has one job.
type oneJob struct {
	Broker
	job     dispatch.Record
	results error // why there are none
}

func (b oneJob) Read(_ context.Context, _ dispatch.UserID, id dispatch.JobID, _ time.Duration) (dispatch.Record, error) {
	if id != b.job.ID {
		return dispatch.Record{}, &dispatch.Error{Kind: dispatch.NotFound}
	}
	return b.job, nil
}

func (b oneJob) Results(context.Context, dispatch.UserID, dispatch.JobID) (json.RawMessage, error) {
	return json.RawMessage(`{"type": "Collection"}`), b.results
}

// unlisted is a catalogue without services.
type unlisted struct{ Services }

func (unlisted) Identify(dispatch.Label, dispatch.Service) (string, bool) { return "", false }

// TestMessage_WithoutResults: a subscriber whose results are gone for good gets the status with the reason. Results that may still come are waited for,
// not longer than the message is repeated.
func TestMessage_WithoutResults(t *testing.T) {
	lost := func(kind dispatch.Kind, text string) error { return &dispatch.Error{Kind: kind, Text: text} }
	for name, c := range map[string]struct {
		now     dispatch.Status
		results error
		queued  time.Duration // ago
		message string        // "": none is written now
	}{
		"expunged":          {dispatch.Finished, lost(dispatch.NotFound, "The platform has no such job."), 0, "The job was successful, but its results cannot be sent: The platform has no such job."},
		"no longer kept":    {dispatch.Finished, lost(dispatch.Conflict, "They are no longer kept."), 0, "The job was successful, but its results cannot be sent: They are no longer kept."},
		"late":              {dispatch.Finished, lost(dispatch.Busy, "Ask again later."), time.Hour, ""},
		"the platform down": {dispatch.Finished, lost(dispatch.Unavailable, "It does not respond."), time.Hour, ""},
		"down for long":     {dispatch.Finished, lost(dispatch.Unavailable, "It does not respond."), patience + time.Minute, "The job was successful, but its results cannot be sent: It does not respond."},
		"to be signed in":   {dispatch.Finished, lost(dispatch.SignInRequired, "Sign in."), time.Hour, ""},
		"failed since":      {dispatch.Failed, nil, 0, "The job was successful, but its results cannot be sent: The job failed: its platform gives no reason."},
		"canceled since":    {dispatch.Canceled, nil, 0, "The job was successful, but its results cannot be sent: The job was dismissed and has no results."},
		"running again":     {dispatch.Running, nil, 0, "The job was successful, but its results cannot be sent: The job has not ended. Read its status until it is successful."},
	} {
		f := New(Config{Broker: oneJob{job: dispatch.Record{Job: dispatch.Job{ID: 7, Status: c.now}}, results: c.results}, Services: unlisted{}})
		text, media, err := f.Message(t.Context(), dispatch.Hook{Owner: "ann"}, dispatch.Delivery{Event: dispatch.Event{Job: 7, Status: dispatch.Finished},
			Queued: time.Now().Add(-c.queued)})
		if c.message == "" {
			if err != c.results {
				t.Errorf("%s: %s, %v", name, text, err)
			}
			continue
		}
		var info statusInfo
		if err != nil || media != mediaJSON || json.Unmarshal(text, &info) != nil || info.JobID != "7" || info.Status != successful || info.Message != c.message {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}
