package events

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/documents"
)

// TestSigned_AsTheStandardsExample: the example of the documentation of Standard Webhooks.
func TestSigned_AsTheStandardsExample(t *testing.T) {
	h, err := headers("whsec_plJ3nmyCDGBKInavdOK15jsl", "msg_loFOjxBNrRLzqYUf", time.Unix(1731705121, 0),
		[]byte(`{"event_type":"ping","data":{"success":true}}`))
	if err != nil || h.Get("Webhook-Signature") != "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=" ||
		h.Get("Webhook-Timestamp") != "1731705121" {
		t.Errorf("%v, %v", h, err)
	}
}

const (
	page    = "docs/webhooks.md"
	heading = "# Webhooks"
)

// TestMessages_AsDocumented: docs/webhooks.md shows messages of all types as they are sent, the first one with a
// signature that its reader can verify.
func TestMessages_AsDocumented(t *testing.T) {
	head, first, _ := strings.Cut(documents.Block(t, page, heading, "http"), "\n\n")
	types := map[string]bool{}
	for line := range strings.Lines(first + documents.Block(t, page, heading, "json")) {
		var shown message
		if err := json.Unmarshal([]byte(line), &shown); err != nil {
			t.Fatal(err)
		}
		e, err := dispatch.ParseEvent(shown.ID)
		if err != nil {
			t.Fatal(err)
		}
		s := New(Config{Source: shown.Source, Advice: func(dispatch.Attention) string { return shown.Data.Advice }})
		sent, err := s.body(dispatch.Delivery{Event: e, Task: dispatch.TaskID(shown.Data.Task),
			Number: shown.Data.Number, Happened: shown.Time})
		if err != nil || string(sent)+"\n" != line {
			t.Errorf("%s\nis sent as\n%s, %v", line, sent, err)
		}
		types[shown.Type] = true
	}
	if len(types) != 7 {
		t.Errorf("of the types only %v are shown", types)
	}
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	field := func(name string) string {
		_, rest, _ := strings.Cut(head, "\n"+name+": ")
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	at, err := strconv.ParseInt(field("Webhook-Timestamp"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	secret := regexp.MustCompile("`(whsec_[^`]+)`").FindSubmatch(text)
	h, err := headers(dispatch.Secret(secret[1]), field("Webhook-Id"), time.Unix(at, 0),
		[]byte(strings.TrimSuffix(first, "\n")))
	if got := field("Webhook-Signature"); err != nil || got != h.Get("Webhook-Signature") {
		t.Errorf("the signature is %s, shown as %s, %v", h.Get("Webhook-Signature"), got, err)
	}
}

func TestPause_GrowsToItsBound(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: first, 2: 2 * first, 4: 8 * first, 11: longest,
		1 << 40: longest} {
		if got := pause(failures, longest); got != want {
			t.Errorf("after %d failures %v, not %v", failures, got, want)
		}
	}
}

// TestLease_IsLongerThanARound: while a round lasts, no other process takes its deliveries.
func TestLease_IsLongerThanARound(t *testing.T) {
	if longest := round/parallel*(writeWithin+tryWithin) + storing; longest >= lease {
		t.Errorf("a round takes up to %v", longest)
	}
}

// TestBody_OfTasks: what it is about, and the share.
func TestBody_OfTasks(t *testing.T) {
	for want, e := range map[string]dispatch.Event{
		`"id":"task-3-25-task_share_25","source":"s","type":"org.eodispatch.task.share.v1","subject":"upscale_tasks/3"`:            {Of: 3, Epoch: 25, Status: "task_share_25"},
		`"id":"task-3-104-task_ended","source":"s","type":"org.eodispatch.task.ended.v1","subject":"upscale_tasks/3"`:              {Of: 3, Epoch: 104, Status: dispatch.TaskEnded},
		`"id":"job-0-9-sign_in_required","source":"s","type":"org.eodispatch.sign-in-required.v1","time"`:                          {Epoch: 9, Status: dispatch.SignInEvent},
		`"id":"job-4-9-attention","source":"s","type":"org.eodispatch.job.attention.v1","subject":"unit_jobs/4"`:                   {Job: 4, Epoch: 9, Status: dispatch.NeedsOwner},
		`"number":7,"status":"attention","attention":"stalled","message":"Look at stalled."}`:                                      {Job: 4, Epoch: 9, Status: dispatch.Needs(dispatch.Stalled)},
		`"id":"task-3-9-attention_trial_ended","source":"s","type":"org.eodispatch.task.attention.v1","subject":"upscale_tasks/3"`: {Of: 3, Epoch: 9, Status: dispatch.Needs(dispatch.TrialEnded)},
	} {
		s := New(Config{Source: "s", Advice: func(why dispatch.Attention) string {
			return "Look at " + string(why) + "."
		}})
		text, err := s.body(dispatch.Delivery{Event: e, Task: 3, Number: 7})
		if err != nil || !strings.Contains(string(text), want) ||
			strings.Contains(want, "share") != strings.Contains(string(text), `"share":25`) {
			t.Errorf("%s: %s, %v", want, text, err)
		}
	}
}

// TestBegin_LeavesPlacesToOthers: however many hooks of a user wait for receivers that do not answer, those of others
// are served meanwhile.
func TestBegin_LeavesPlacesToOthers(t *testing.T) {
	if ofOwner > atOnce/2 {
		t.Errorf("one owner has %d of %d places", ofOwner, atOnce)
	}
	s := New(Config{})
	of := func(u dispatch.UserID, n int) dispatch.Hook { return dispatch.Hook{ID: fmt.Sprint(u, n), Owner: u} }
	for i := range ofOwner {
		if !s.begin(of("ann", i)) {
			t.Fatalf("hook %d is not served", i)
		}
	}
	if s.begin(of("ann", ofOwner)) || !s.begin(of("bob", 0)) || s.begin(of("bob", 0)) {
		t.Error("the bound of one owner is not kept, or is that of others, too")
	}
	s.end(of("ann", 3))
	if !s.begin(of("ann", ofOwner)) {
		t.Error("a place that is free again is not taken")
	}
	for i := range ofOwner + 1 {
		if i != 3 {
			s.end(of("ann", i))
		}
	}
	if s.end(of("bob", 0)); len(s.sending) != 0 || len(s.busy) != 0 {
		t.Errorf("owners that have ended are kept: %v, %v", s.sending, s.busy)
	}
}
