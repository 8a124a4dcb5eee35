package conformance

import (
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

func (t storeTest) purge() {
	ctx := t.Context()
	end := func(hide bool, change func(*dispatch.Job)) dispatch.JobID {
		j := t.accept()
		j.Phase, j.Moved, j.Result = dispatch.Ended, j.Created, []byte(`{}`)
		if change != nil {
			change(&j)
		}
		j = t.save(j)
		if hide {
			_, err := t.s.Cancel(ctx, ann, j.ID, true)
			t.must(err)
		}
		return j.ID
	}
	gone := end(true, nil)
	kept := []dispatch.JobID{end(false, nil),
		end(true, func(j *dispatch.Job) { j.Orphans = []dispatch.Ref{{ID: "x"}} }),
		end(true, func(j *dispatch.Job) { j.Phase = dispatch.Started })}
	_, err := t.s.Accept(ctx, dispatch.Key{Text: "k", Fingerprint: "f"}, nil, []dispatch.Draft{draft(ann, shared)})
	t.must(err)
	t.db.Pass(2 * time.Hour)
	kept = append(kept, end(true, func(j *dispatch.Job) { j.Moved = t.readAgenda().Now }))
	t.must(t.s.Purge(ctx, time.Hour))
	_, err = t.s.Load(ctx, gone)
	t.kind(err, dispatch.NotFound)
	_, err = t.s.Request(ctx, gone)
	t.kind(err, dispatch.NotFound)
	for _, id := range kept {
		t.load(id)
	}
	r, err := t.s.Accept(ctx, dispatch.Key{Text: "k", Fingerprint: "f"}, nil, []dispatch.Draft{draft(ann, shared)})
	if err != nil || r.Job == 0 {
		t.Errorf("a young key was forgotten: %v, %v", r, err)
	}
}

func (t storeTest) agenda() {
	ctx := t.Context()
	now := t.accept().Created
	t.db.Pass(time.Hour)
	now = now.Add(time.Hour)
	n := 0
	job := func(p dispatch.Phase, due time.Duration, cancel, orphan bool) dispatch.Job {
		n++
		j := t.accept()
		j.Phase, j.Due, j.Moved = p, now.Add(due), now
		if orphan {
			j.Orphans = []dispatch.Ref{{ID: "x"}}
		}
		j = t.save(j)
		if cancel {
			_, err := t.s.Cancel(ctx, ann, j.ID, false)
			t.must(err)
			j = t.load(j.ID)
			j.Due = now.Add(due)
			j = t.save(j)
		}
		return j
	}
	const past, future = -time.Minute, time.Minute
	want := dispatch.Agenda{Now: now}
	want.Cancel = []dispatch.Job{
		job(dispatch.Created, past-9, true, false),
		job(dispatch.Starting, past-8*time.Second, true, false),
		job(dispatch.Started, past-7*time.Second, true, false),
		job(dispatch.Ended, past-6*time.Second, false, true),
		job(dispatch.Started, past-5*time.Second, false, true),
		job(dispatch.Creating, past-4*time.Second, false, true),
	}
	want.Cancel = append(want.Cancel[1:], want.Cancel[0]) // by due time, since nanoseconds are not stored
	want.Settle = []dispatch.Job{
		job(dispatch.Creating, past-3*time.Second, true, false),
		job(dispatch.Creating, past-2*time.Second, false, false),
		job(dispatch.Starting, past, false, false),
	}
	want.Start = []dispatch.Job{job(dispatch.Created, past, false, false), job(dispatch.Created, past, false, false)}
	want.Poll = []dispatch.Job{job(dispatch.Started, past-time.Second, false, false), job(dispatch.Started, past, false,
		false)}
	for _, p := range []dispatch.Phase{dispatch.Creating, dispatch.Created, dispatch.Starting, dispatch.Started} {
		job(p, future, false, false)
	}
	job(dispatch.Ended, past, false, false)
	want.NextWaiting = now.Add(-time.Hour)
	want.NextStart = now.Add(past)
	want.Next = now.Add(past - 8*time.Second)
	want.NextPoll = now.Add(past - time.Second)
	g := t.readAgenda()
	for _, list := range []*[]dispatch.Job{&want.Cancel, &want.Settle, &want.Start, &want.Poll} {
		slices.SortFunc(*list, func(a, b dispatch.Job) int { return a.Due.Compare(b.Due) })
	}
	want.Wakes, want.Held, want.Active, want.Queues = g.Wakes, g.Held, 5, g.Queues
	t.equal(g, want)
	few, err := t.s.Agenda(ctx, shared, 1, stalledAfter)
	t.must(err)
	t.equal([]int{len(few.Cancel), len(few.Settle), len(few.Start), len(few.Poll)}, []int{1, 1, 1, 1})
	t.equal(few.Poll[0], want.Poll[0])
}

func (t storeTest) queues() {
	ctx := t.Context()
	slash := dispatch.UserID("https://idp.example/ d/9/")
	first, jobs := t.acceptTask(slash, 5)
	second, annsJobs := t.acceptTask(ann, 2)
	single := t.accept()
	hers := t.acceptFor(bob, shared)
	l := t.lease()
	stalled := jobs[0].Job
	stalled.Phase = dispatch.Started
	t.save(stalled)
	t.db.Pass(stalledAfter)
	g := t.readAgenda()
	t.must(t.s.Renew(ctx, l, time.Minute))
	held, err := t.s.Intend(ctx, l, limits, []dispatch.Job{jobs[1].Job, jobs[2].Job, single})
	t.must(err)
	for i := range held {
		held[i].Moved = g.Now
	}
	_, err = t.s.Save(ctx, held)
	t.must(err)
	hers.Due = g.Now.Add(time.Minute)
	t.save(hers)
	g = t.readAgenda()
	if g.Held != 4 {
		t.Errorf("%d slots are held, want 4", g.Held)
	}
	want := []dispatch.Queue{{Owner: slash, Task: first.ID, Held: 3, OwnerHeld: 3, Served: 2, OwnerServed: 2,
		First: jobs[3].ID, Due: jobs[3].Due},
		{Owner: ann, Task: second.ID, Held: 0, OwnerHeld: 1, OwnerServed: 3, First: annsJobs[0].ID,
			Due: annsJobs[0].Due}}
	t.equal(g.Queues, want)
	ready, err := t.s.Ready(ctx, shared, g.Queues[0], 9)
	t.must(err)
	t.equal(ready, []dispatch.Job{jobs[3].Job, jobs[4].Job})
	ready, err = t.s.Ready(ctx, shared, g.Queues[0], 1)
	t.must(err)
	t.equal(ready, []dispatch.Job{jobs[3].Job})
	ready, err = t.s.Ready(ctx, shared, dispatch.Queue{Owner: bob}, 9)
	t.must(err)
	t.equal(ready, []dispatch.Job{})

	queues, err := t.s.Queues(ctx, shared)
	t.must(err)
	end := dispatch.Rank{Due: dispatch.Never}
	ids, err := t.s.Waiting(ctx, shared, g.Queues[0], dispatch.Rank{}, end)
	t.must(err)
	t.equal(ids, []dispatch.JobID{jobs[3].ID, jobs[4].ID})
	for i, j := range jobs[3:5] {
		at := dispatch.Rank{Due: j.Due, ID: j.ID}
		one, err := t.s.Waiting(ctx, shared, g.Queues[0], at, at)
		t.must(err)
		t.equal(one, []dispatch.JobID{j.ID})
		rest, err := t.s.Waiting(ctx, shared, g.Queues[0], at, end)
		t.must(err)
		t.equal(rest, ids[i:])
	}
	for i, j := range []dispatch.Job{jobs[3].Job, jobs[4].Job, annsJobs[0].Job, hers} {
		n, err := t.s.WaitingBefore(ctx, shared, dispatch.Queue{Owner: j.Owner, Task: j.Task}, j.Rank())
		t.must(err)
		t.equal(n, []int{0, 1, 0, 0}[i])
	}
	late := dispatch.Rank{Due: jobs[3].Due.Add(time.Second), ID: jobs[3].ID}
	n, err := t.s.WaitingBefore(ctx, shared, g.Queues[0], late)
	t.must(err)
	t.equal(n, 2)
	want[0].Waiting, want[1].Waiting = 2, 2
	t.equal(queues, append(want, dispatch.Queue{Owner: bob, Waiting: 1, First: hers.ID, Due: hers.Due}))
	queues, err = t.s.Queues(ctx, "q/shared")
	t.must(err)
	ids, err = t.s.Waiting(ctx, "q/shared", dispatch.Queue{Owner: ann}, dispatch.Rank{}, end)
	t.must(err)
	t.equal(len(queues)+len(ids), 0)
}

func (t storeTest) listable() {
	want := []dispatch.JobID{}
	for _, c := range []struct {
		base  string
		phase dispatch.Phase
	}{
		{"", dispatch.Waiting}, {"", dispatch.Creating}, {"", dispatch.Created}, {"", dispatch.Starting},
		{"", dispatch.Started},
		{"", dispatch.Ended}, {"n", dispatch.Started},
	} {
		d := draft(ann, shared)
		d.Base = c.base
		drafts := []dispatch.Draft{d}
		_, err := t.s.Accept(t.Context(), dispatch.Key{}, nil, drafts)
		t.must(err)
		j := drafts[0].Job
		j.Phase = c.phase
		j.Due = j.Due.Add(time.Hour)
		t.save(j)
		if c.base == "" && (c.phase == dispatch.Creating || c.phase == dispatch.Started) {
			want = append(want, j.ID)
		}
	}
	bases, err := t.s.Bases(t.Context(), shared)
	t.must(err)
	t.equal(bases, []string{"", "n"})
	jobs, err := t.s.Listable(t.Context(), shared, "")
	t.must(err)
	got := []dispatch.JobID{}
	for _, j := range jobs {
		got = append(got, j.ID)
	}
	t.equal(got, want)
}
