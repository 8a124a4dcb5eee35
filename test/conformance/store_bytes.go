package conformance

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// quotaOfBytes checks that the requests of unfinished jobs count, at all accounts together, that the shared request of
// a task counts once, and that multi-byte characters count in bytes.
func (t storeTest) quotaOfBytes() {
	ctx := t.Context()
	body := []byte(`{"title":"` + strings.Repeat("é", 245) + `"}`)
	ask := func(a dispatch.Account, most int64) (dispatch.JobID, error) {
		d := draft(ann, a)
		d.Body = body
		jobs := []dispatch.Draft{d}
		_, err := t.s.Accept(ctx, dispatch.Key{}, nil, jobs, dispatch.Quota{Bytes: most})
		return jobs[0].ID, err
	}
	size := int64(len(body))
	first, err := ask(shared, size)
	t.must(err)
	_, err = ask("q/shared", 2*size-1)
	t.kind(err, dispatch.LimitReached)
	if want := fmt.Sprintf(
		"The requests of a user's unfinished jobs may take %d bytes together. Yours take %d, and this one %d more.",
		2*size-1, size, size); dispatch.TextFor(err) != want {
		t.Errorf("refused with %q, want %q", dispatch.TextFor(err), want)
	}
	_, err = ask("q/shared", 2*size)
	t.must(err)
	t.holds(2 * size)
	_, err = t.s.Cancel(ctx, ann, first, true)
	t.must(err)
	t.holds(size)
	t.taskBytes(size)
	t.parallelBytes(body)
}

// taskBytes continues with a user who already holds so many bytes.
func (t storeTest) taskBytes(held int64) {
	ctx := t.Context()
	r := request()
	r.Parameters = json.RawMessage(`{"x":"` + strings.Repeat("<", 1000) + `"}`)
	sent := &dispatch.Document{Origin: dispatch.Origin{Platform: "p",
		Service: dispatch.Service{Application: "process_graph#1"}}, Body: []byte(`{"process_graph":{"é":{}}}`)}
	task := &dispatch.Task{Owner: ann, Account: shared, Request: r, Dimension: "d", Document: sent}
	var jobs []dispatch.Draft
	for i := range 3 {
		d := draft(ann, shared)
		d.Number, d.Body = i+1, []byte(strings.Repeat("7", 100))
		jobs = append(jobs, d)
	}
	whole := sizeOf(r) + 300 + int64(len(sent.Body))
	_, err := t.s.Accept(ctx, dispatch.Key{}, task, jobs, dispatch.Quota{Bytes: held + whole - 1})
	t.kind(err, dispatch.LimitReached)
	_, err = t.s.Accept(ctx, dispatch.Key{}, task, jobs, dispatch.Quota{Bytes: held + whole})
	t.must(err)
	t.holds(held + whole)
	t.end(jobs[0].ID, dispatch.Failed, nil)
	t.holds(held + whole - 100)
	for _, most := range []int64{held + whole - 1, held + whole} { // one retried job, beside two that share its request
		_, _, err := t.s.RetryTask(ctx, ann, task.ID, dispatch.Choice{}, dispatch.Quota{Bytes: most})
		if refused := most < held+whole; refused != dispatch.Is(err, dispatch.LimitReached) || !refused && err != nil {
			t.Errorf("a retry within %d of %d bytes: %v", most, held+whole, err)
		}
	}
	for _, j := range jobs {
		t.end(j.ID, dispatch.Failed, nil)
	}
	t.holds(held)
	_, _, err = t.s.RetryTask(ctx, ann, task.ID, dispatch.Choice{}, dispatch.Quota{Bytes: held + whole - 1})
	t.kind(err, dispatch.LimitReached)
	_, n, err := t.s.RetryTask(ctx, ann, task.ID, dispatch.Choice{}, dispatch.Quota{Bytes: held + whole})
	t.must(err)
	if n != 3 {
		t.Errorf("%d jobs are retried", n)
	}
	_, err = t.s.CancelTask(ctx, ann, task.ID, true)
	t.must(err)
	t.holds(held)
	run := dispatch.SyncRun{Owner: ann, Account: shared, Status: dispatch.Running, Request: r}
	t.kind(t.s.BeginSyncRun(ctx, &run, time.Minute, dispatch.Quota{Bytes: held + sizeOf(r) - 1}), dispatch.LimitReached)
	t.must(t.s.BeginSyncRun(ctx, &run, time.Minute, dispatch.Quota{Bytes: held + sizeOf(r)}))
	t.holds(held + sizeOf(r))
	t.must(t.s.EndSyncRun(ctx, run))
	t.holds(held)
}

// parallelBytes checks that concurrent submits, in any process, use up the quota exactly.
func (t storeTest) parallelBytes(body []byte) {
	const most = 5
	handles := t.handles(4)
	var all sync.WaitGroup
	var kept atomic.Int64
	for i := range 16 {
		all.Go(func() {
			d := draft(bob, shared)
			d.Body = body
			_, err := handles[i%len(handles)].Accept(t.Context(), dispatch.Key{}, nil, []dispatch.Draft{d},
				dispatch.Quota{Bytes: most*int64(len(body)) + 1})
			if err == nil {
				kept.Add(1)
			} else {
				t.kind(err, dispatch.LimitReached)
			}
		})
	}
	all.Wait()
	if kept.Load() != most {
		t.Errorf("%d kept, want %d", kept.Load(), most)
	}
}

// holds fails the test unless ann's live requests have so many bytes.
func (t storeTest) holds(want int64) {
	t.Helper()
	infos, err := t.s.AccountInfo(t.Context(), ann, []dispatch.Account{""}, nil)
	t.must(err)
	if got := infos[0].Bytes; got != want {
		t.Errorf("%d bytes are held, want %d", got, want)
	}
}
