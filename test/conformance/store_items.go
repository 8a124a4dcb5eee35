package conformance

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/dispatch"
)

// results checks what is kept of results that came in the response to the submission.
func (t storeTest) results() {
	ctx, j := t.Context(), t.accept()
	want := []byte("{\"type\": \"Collection\",\n\"é\": 1e400}")
	j.Result, j.Phase, j.Status, j.Moved = want, dispatch.Ended, dispatch.Finished, j.Created
	j = t.save(j)
	if j.Result != nil || t.load(j.ID).Result != nil {
		t.Error("the result came with the job")
	}
	j = t.save(j) // saving without a result keeps it
	t.s = t.db.Restart()
	body := func() []byte {
		items, err := t.s.Items(ctx, ann, []dispatch.JobID{j.ID}, true)
		t.must(err)
		if !items[j.ID].Given {
			t.Errorf("it was not given: %+v", items)
		}
		return items[j.ID].Body
	}
	if !bytes.Equal(body(), want) {
		t.Errorf("the result is %s", body())
	}
	if page, err := t.s.FindItems(ctx, ann, dispatch.ItemQuery{Limit: 9}); err != nil || len(page.Items) > 0 {
		t.Errorf("before it was read: %v, %v", page, err)
	}
	t.must(t.s.KeepItem(ctx, dispatch.Item{Job: j.ID, Account: shared, First: t.readAgenda().Now,
		Last: t.readAgenda().Now, Head: []byte("{}"), Body: []byte("{}")}))
	t.must(t.s.DropItem(ctx, j.ID))
	if !bytes.Equal(body(), want) {
		t.Errorf("the result that was given is replaced by %s", body())
	}
	if page, err := t.s.FindItems(ctx, ann, dispatch.ItemQuery{Limit: 9}); err != nil || len(page.Items) != 1 {
		t.Errorf("after it was read: %v, %v", page, err)
	}
}

// finish stores that a job has finished.
func (t storeTest) finish(j dispatch.Job) dispatch.Job {
	t.Helper()
	j.Phase, j.Status, j.Moved = dispatch.Ended, dispatch.Finished, t.readAgenda().Now
	return t.save(j)
}

// items checks how long results are to be read, and when they are forgotten.
func (t storeTest) items() {
	ctx, j, other := t.Context(), t.accept(), t.acceptFor(bob, "p/bob")
	platform := shared.Platform()
	due := func(want ...dispatch.DueItem) {
		t.Helper()
		platforms, err := t.s.DuePlatforms(ctx)
		t.must(err)
		if expected := slices.Repeat([]string{platform}, len(want)); !slices.Equal(platforms, expected) {
			t.Errorf("due at %q, want %q", platforms, expected)
		}
		got, err := t.s.DueItems(ctx, platform, 9)
		t.must(err)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("due: %s", d)
		}
	}
	due()
	j = t.finish(j)
	for tries := 1; tries <= 7; tries++ {
		due(dispatch.DueItem{Owner: ann, Job: j.ID, Tries: tries})
		due()
		t.db.Pass(24 * time.Hour)
	}
	due()
	now := t.readAgenda().Now
	want := dispatch.Item{Job: j.ID, Task: j.Task, Account: shared, Read: true, Box: []float64{1, 2, 3, 4},
		First: now.Add(-time.Hour), Last: now, Head: []byte(`{"properties": {}}`), Body: []byte(`{"a": 1}`), Until: now}
	kept := func(want ...dispatch.Item) {
		t.Helper()
		page, err := t.s.FindItems(ctx, ann, dispatch.ItemQuery{Limit: 9})
		t.must(err)
		if d := cmp.Diff(want, page.Items); d != "" {
			t.Errorf("kept: %s", d)
		}
	}
	t.must(t.s.KeepItem(ctx, want))
	kept(want)
	want.Box, want.Body = nil, nil
	t.must(t.s.KeepItem(ctx, want))
	kept(want)
	t.must(t.s.KeepItem(ctx, dispatch.Item{Job: other.ID, First: now, Last: now})) // it has not finished
	kept(want)
	t.must(t.s.DropItem(ctx, j.ID))
	kept()
	t.must(t.s.KeepItem(ctx, want))
	kept(want)
	services, err := t.s.ItemServices(ctx, ann)
	t.must(err)
	if d := cmp.Diff(map[dispatch.ServiceHash]dispatch.JobID{j.Service: j.ID}, services); d != "" {
		t.Errorf("services: %s", d)
	}
	j.Removal.Removed = now
	j = t.save(j)
	kept()
	t.must(t.s.KeepItem(ctx, want))
	_, err = t.s.Cancel(ctx, ann, j.ID, true)
	t.must(err)
	kept()
	t.must(t.s.KeepItem(ctx, want))
	kept()
}

// itemSearches checks that searches find all that match, in pages, and nothing else.
func (t storeTest) itemSearches() {
	ctx, random := t.Context(), rand.New(rand.NewPCG(1, 2))
	task, drafts := t.acceptTask(ann, 60)
	jobs := []dispatch.Job{t.accept(), t.acceptFor(bob, shared)}
	for _, d := range drafts {
		jobs = append(jobs, d.Job)
	}
	t.must(t.s.AnnotateTask(ctx, ann, task.ID, dispatch.AnnotationChange{Labels: map[string]*string{"a": new("1")}}))
	t.must(t.s.AnnotateJob(ctx, ann, jobs[0].ID, dispatch.AnnotationChange{Labels: map[string]*string{"a": new("1")}}))
	base := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, j := range jobs {
		t.finish(t.load(j.ID))
		item := dispatch.Item{Job: j.ID, Account: shared, Head: []byte("{}"), Body: []byte("{}"),
			First: base.AddDate(0, 0, random.IntN(400))}
		item.Last = item.First.Add(time.Duration(random.IntN(1000)) * time.Hour)
		west, south := random.Float64()*360-180, random.Float64()*180-90
		item.Box = []float64{west, south, west + 40*random.Float64(), min(90, south+30*random.Float64())}
		if item.Box[2] > 180 {
			item.Box[2] -= 360
		}
		switch {
		case i%9 == 0:
			item.Box = nil
		case i%7 == 0:
			item.First, item.Last = time.Time{}, t.readAgenda().Now // not known
		}
		t.must(t.s.KeepItem(ctx, item))
	}
	all, err := t.s.Items(ctx, ann, idsOf(jobs), false)
	t.must(err)
	if len(all) != len(jobs)-1 {
		t.Fatalf("%d of %d", len(all), len(jobs))
	}
	for n := range 200 {
		q := randomItemQuery(random, base, task.ID, jobs)
		want := map[dispatch.JobID]bool{}
		for id, i := range all {
			labeled := i.Task != 0 || id == jobs[0].ID
			if matchesItem(i, q, labeled) {
				want[id] = true
			}
		}
		if d := cmp.Diff(want, t.find(q, n)); d != "" {
			t.Fatalf("%+v: %s", q, d)
		}
	}
	extents, err := t.s.ItemExtents(ctx, ann, []dispatch.TaskID{task.ID})
	t.must(err)
	if e := extents[task.ID]; e.Box == nil || e.First.Before(base) || e.Last.Before(e.First) {
		t.Errorf("extents: %+v", extents)
	}
	if others, err := t.s.ItemExtents(ctx, bob, []dispatch.TaskID{task.ID}); err != nil || len(others) > 0 {
		t.Errorf("another's: %v, %v", others, err)
	}
	for _, bad := range []string{"x", "place.1", "place.1.1", "job.1.x", "1.2.3"} {
		_, err := t.s.FindItems(ctx, ann, dispatch.ItemQuery{Limit: 1, After: bad})
		t.kind(err, dispatch.Invalid)
	}
}

// find returns the jobs of all pages of a search.
func (t storeTest) find(q dispatch.ItemQuery, n int) map[dispatch.JobID]bool {
	t.Helper()
	found := map[dispatch.JobID]bool{}
	for q.Limit = 1 + n%20; ; {
		page, err := t.s.FindItems(t.Context(), ann, q)
		t.must(err)
		for _, i := range page.Items {
			if found[i.Job] {
				t.Fatalf("%+v: %d twice", q, i.Job)
			}
			found[i.Job] = true
		}
		if q.After = page.Next; q.After == "" {
			return found
		}
		if len(page.Items) != q.Limit {
			t.Fatalf("a page of %d", len(page.Items))
		}
	}
}

func idsOf(jobs []dispatch.Job) (ids []dispatch.JobID) {
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

func randomItemQuery(r *rand.Rand, base time.Time, task dispatch.TaskID, jobs []dispatch.Job) (q dispatch.ItemQuery) {
	sometimes := func() bool { return r.IntN(3) == 0 }
	if r.IntN(2) == 0 {
		west, south := r.Float64()*360-180, r.Float64()*180-90
		q.Box = []float64{west, south, r.Float64()*360 - 180, min(90, south+60*r.Float64())}
		if sometimes() { // a small one
			q.Box[2], q.Box[3] = min(180, west+3), min(90, south+3)
		}
	}
	if sometimes() {
		q.Meets = func(box []float64) bool { return box != nil && box[1] > 0 }
	}
	if sometimes() {
		q.From = base.AddDate(0, 0, r.IntN(400))
	}
	if sometimes() {
		q.To = base.AddDate(0, 0, r.IntN(500))
	}
	if sometimes() {
		q.Tasks = []dispatch.TaskID{task, task + 1e6}[:1+r.IntN(2)]
	}
	if sometimes() {
		q.Services = []dispatch.ServiceHash{jobs[0].Service, jobs[0].Service + 1}[:1+r.IntN(2)]
	}
	if sometimes() {
		q.Labels = map[string]string{"a": fmt.Sprint(1 + r.IntN(2))}
	}
	if r.IntN(9) == 0 {
		q.Jobs = idsOf(jobs)[:1+r.IntN(20)]
	}
	return q
}

// matchesItem is what a search is to find.
func matchesItem(i dispatch.Item, q dispatch.ItemQuery, labeled bool) bool {
	first, last := i.First, i.Last
	if first.IsZero() {
		first = time.Unix(0, 0)
	}
	return meets(i.Box, q.Box) && (q.Meets == nil || q.Meets(i.Box)) &&
		(q.From.IsZero() || !last.Before(q.From)) && (q.To.IsZero() || !first.After(q.To)) &&
		(q.Labels == nil || labeled && q.Labels["a"] == "1") && (q.Tasks == nil || slices.Contains(q.Tasks, i.Task)) &&
		(q.Jobs == nil || slices.Contains(q.Jobs, i.Job))
}
