package broker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
)

// TestQuota_OfASharedAccount is each user's own, and counts jobs there alone.
func TestQuota_OfASharedAccount(t *testing.T) {
	with(t, dispatch.AccessShared, &script{}, func(t *testing.T, h *testBroker) {
		h.Backends[0].Quota = dispatch.Quota{Live: 2, Daily: 3}
		h.accept(t)
		second := h.accept(t)
		_, err := h.Accept(t.Context(), "ann", request("a"), dispatch.Key{})
		if wantKind(t, err,
			dispatch.LimitReached); dispatch.TextFor(err) != "A user may have 2 unfinished jobs at a. You have 2, "+
			"and request 1." {
			t.Errorf("%q", dispatch.TextFor(err))
		}
		if _, err := h.Accept(t.Context(), "bob", request("a"), dispatch.Key{}); err != nil {
			t.Errorf("another's quota: %v", err)
		}
		if err := h.Delete(t.Context(), "ann", second.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		h.accept(t)
		use, err := h.Usage(t.Context(), "ann")
		if err != nil || len(use) != 1 || use[0].Live != 2 || use[0].Lately != 3 || use[0].Quota.Live != 2 ||
			use[0].Quota.Daily != 3 {
			t.Errorf("usage %+v, %v", use, err)
		}
		if use, err := h.Usage(t.Context(), "eve"); err != nil || len(use) != 1 || use[0].Account != "a/shared" ||
			use[0].Quota.Live != 2 {
			t.Errorf("usage of who has no job: %+v, %v", use, err)
		}
	})
}

// TestUsage_ByLabel: the charges of a month are told apart by the label that the jobs or their task had when their
// costs were reported, and add up to what is shown without the label. A job counts with its own label before that of
// its task, and a changed label changes nothing.
func TestUsage_ByLabel(t *testing.T) {
	costs := 2.0
	p := &script{status: func(dispatch.Token) (dispatch.Report, error) {
		return dispatch.Report{Status: dispatch.Finished, Unit: "credits", Costs: &costs}, nil
	}}
	with(t, dispatch.AccessShared, p, func(t *testing.T, h *testBroker) {
		setting := func(value string) dispatch.AnnotationChange {
			return dispatch.AnnotationChange{Labels: map[string]*string{"project": &value}}
		}
		labeled := request("a")
		labeled.Annotations.Labels = map[string]string{"project": "x"}
		if _, err := h.AcceptTask(t.Context(), "ann", labeled, dispatch.Dimension{Name: "tile",
			Values: slices.Repeat([]json.RawMessage{[]byte("1")}, 3)}, dispatch.Key{}); err != nil {
			t.Fatal(err)
		}
		j := h.accept(t)
		if _, err := h.AnnotateJob(t.Context(), "ann", j.ID, setting("y")); err != nil {
			t.Fatal(err)
		}
		h.accept(t)
		time.Sleep(time.Hour)
		if _, err := h.AnnotateJob(t.Context(), "ann", j.ID, setting("z")); err != nil {
			t.Fatal(err)
		}
		var got []string
		use, err := h.UsageByLabel(t.Context(), "ann", "project")
		if err != nil || len(use) != 1 {
			t.Fatalf("%+v, %v", use, err)
		}
		for _, c := range use[0].Charges {
			value := "none"
			if c.Label != nil {
				value = *c.Label
			}
			got = append(got, fmt.Sprintf("%s: %v in %d", value, c.Costs, c.Runs))
		}
		if want := []string{"x: 6 in 3", "y: 2 in 1", "none: 2 in 1"}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if use, err := h.UsageByLabel(t.Context(), "ann", "season"); err != nil || len(use[0].Charges) != 1 ||
			use[0].Charges[0].Label != nil || use[0].Charges[0].Costs != 10 {
			t.Errorf("by a label that none has: %+v, %v", use, err)
		}
		_, err = h.UsageByLabel(t.Context(), "ann", "no key")
		wantKind(t, err, dispatch.Invalid)
	})
}

// TestQuota_NotEntitledUserRunsNothing, and may still look at and cancel what they have.
func TestQuota_NotEntitledUserRunsNothing(t *testing.T) {
	with(t, dispatch.AccessShared, &script{}, func(t *testing.T, h *testBroker) {
		entitled := true
		h.Backends[0].Entitled = func(context.Context) bool { return entitled }
		first := h.accept(t)
		task, err := h.AcceptTask(t.Context(), "ann", request("a"), dispatch.Dimension{Name: "tile", Values: values(2)},
			dispatch.Key{})
		if err != nil {
			t.Fatal(err)
		}
		entitled = false
		_, alone := h.Accept(t.Context(), "ann", request("a"), dispatch.Key{})
		_, many := h.AcceptTask(t.Context(), "ann", request("a"), dispatch.Dimension{Name: "tile", Values: values(2)},
			dispatch.Key{})
		_, again := h.RetryTask(t.Context(), "ann", task.ID, dispatch.Choice{})
		_, resumed := h.ResumeTask(t.Context(), "ann", task.ID, nil)
		_, raised := h.ResumeTask(t.Context(), "ann", task.ID, &dispatch.Budget{Amount: 9})
		_, sync := h.RunSync(t.Context(), "ann", request("a"))
		for what, err := range map[string]error{"a job": alone, "a task": many, "a retry": again,
			"a resumption": resumed, "a higher budget": raised, "a synchronous run": sync} {
			if wantKind(t, err, dispatch.Forbidden); !strings.Contains(dispatch.TextFor(err),
				"not permitted to use a.") {
				t.Errorf("%s: %q", what, dispatch.TextFor(err))
			}
		}
		if _, err := h.RetryTask(t.Context(), "bob", task.ID, dispatch.Choice{}); !dispatch.Is(err, dispatch.NotFound) {
			t.Errorf("another's task: %v", err)
		}
		if _, err := h.Read(t.Context(), "ann", first.ID, broker.AsKnown); err != nil {
			t.Error(err)
		}
		if _, err := h.PauseTask(t.Context(), "ann", task.ID); err != nil {
			t.Error(err)
		}
		if err := h.Delete(t.Context(), "ann", first.ID); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}

// TestQuota_Bytes, of single jobs and tasks together. What has ended counts no more.
func TestQuota_Bytes(t *testing.T) {
	with(t, dispatch.AccessShared, &script{}, func(t *testing.T, h *testBroker) {
		h.UserBytes = 2000
		large := request("a")
		large.Parameters = json.RawMessage(`{"x":"` + strings.Repeat("x", 1000) + `"}`)
		first, err := h.Accept(t.Context(), "ann", large, dispatch.Key{})
		if err != nil {
			t.Fatal(err)
		}
		_, overall, within, err := h.Platforms(t.Context(), "ann")
		if err != nil || overall.Bytes < 1000 || overall.Bytes > 1999 || within.Bytes != 2000 {
			t.Errorf("%d of %d bytes are held, %v", overall.Bytes, within.Bytes, err)
		}
		_, alone := h.Accept(t.Context(), "ann", large, dispatch.Key{})
		_, many := h.AcceptTask(t.Context(), "ann", large, dispatch.Dimension{Name: "tile", Values: values(2)},
			dispatch.Key{})
		for what, err := range map[string]error{"a job": alone, "a task": many} {
			want := fmt.Sprintf("may take 2000 bytes together. Yours take %d, and this one ", overall.Bytes)
			if wantKind(t, err, dispatch.LimitReached); !strings.Contains(dispatch.TextFor(err), want) {
				t.Errorf("%s: %q", what, dispatch.TextFor(err))
			}
		}
		if _, err := h.Accept(t.Context(), "bob", large, dispatch.Key{}); err != nil {
			t.Errorf("another's job: %v", err)
		}
		if err := h.Delete(t.Context(), "ann", first.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := h.Accept(t.Context(), "ann", large, dispatch.Key{}); err != nil {
			t.Errorf("after the end of the first: %v", err)
		}
	})
}

func TestQuota_Admit(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		some := rapid.IntRange(0, 9)
		q := dispatch.Quota{Live: some.Draw(r, "live"), Daily: some.Draw(r, "daily"),
			Bytes: int64(some.Draw(r, "bytes"))}
		has := dispatch.QuotaUse{Live: some.Draw(r, "has live"), Lately: some.Draw(r, "has lately"),
			Bytes: int64(some.Draw(r, "has bytes"))}
		n, bytes := some.Draw(r, "asks for"), int64(some.Draw(r, "of bytes"))
		fits := n == 0 && bytes == 0 || (q.Live == 0 || has.Live+n <= q.Live) &&
			(q.Daily == 0 || has.Lately+n <= q.Daily) && (q.Bytes == 0 || has.Bytes+bytes <= q.Bytes)
		if err := q.Admit(has, n, bytes); (err == nil) != fits ||
			err != nil && !dispatch.Is(err, dispatch.LimitReached) {
			r.Fatalf("%+v with %+v for %d of %d bytes: %v", q, has, n, bytes, err)
		}
	})
}
