package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/forecast"
)

const (
	usualFrom   = 20          // finished runs at a platform, whose median is the usual run time there
	spreadEvery = time.Second // how often the jobs of tasks with several placements are planned
)

// draftTask returns the drafts with which a task or, without a dimension, a job can be stored: one or, if the request
// has several placements, one for each that can be used. It is checked at each.
func (b *Broker) draftTask(ctx context.Context, u dispatch.UserID, r dispatch.Request,
	d *dispatch.Dimension) ([]taskDraft, error) {
	if d != nil {
		if err := dispatch.CheckDimensions(r.Complete(), d); err != nil {
			return nil, err
		}
	}
	if len(r.Placements) == 0 {
		one, err := b.draft(ctx, u, r, d)
		return []taskDraft{one}, err
	}
	if r.Asked().Budget != (dispatch.Budget{}) {
		return nil, dispatch.InvalidBody("dispatch.Accept",
			"A task at several platforms cannot have a budget, because platforms charge in different units.", "options",
			"budget")
	}
	placements, drafts, err := b.draftPlacements(ctx, u, r, d)
	if err != nil {
		return nil, err
	}
	var all []taskDraft
	for i := range placements {
		if placements[i].Unused != "" {
			continue
		}
		one := drafts[i].taskDraft
		if one.request.Placements, err = pinPlacements(placements, drafts, i); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// pinPlacements returns the placements with what they are pinned to. The document of the first placement is stored with
// the task, so a placement with another one is not pinned; it is an error if the client asked for that.
func pinPlacements(placements []dispatch.Placement, drafts []placementDraft, first int) ([]dispatch.Placement, error) {
	placements = slices.Clone(placements)
	for i := range placements {
		r := drafts[i].request
		switch {
		case placements[i].Unused != "":
		case r.PinnedToDocument() && r.Pin != drafts[first].request.Pin:
			if r.MustPin() {
				return nil, dispatch.InvalidBody("dispatch.Accept",
					"The services are defined by different documents, so that the task cannot be pinned.", "options",
					dispatch.OptionPin)
			}
		default:
			placements[i].Pin = r.Pin
		}
	}
	return placements, nil
}

// placementDraft is a task's draft at one of its placements.
type placementDraft struct {
	taskDraft
	parameters []dispatch.Parameter
	described  bool
	notice     string // see Placement
	err        error
}

// draftPlacements checks a request at each of its placements, all at the same time. A placement that the user may not
// use, or whose description cannot be read now, is unused. It is an error if there is no other one, if two are at the
// same platform, or if their parameters differ.
func (b *Broker) draftPlacements(ctx context.Context, u dispatch.UserID, r dispatch.Request,
	d *dispatch.Dimension) ([]dispatch.Placement, []placementDraft, error) {
	placements, drafts := slices.Clone(r.Placements), make([]placementDraft, len(r.Placements))
	var all sync.WaitGroup
	for i, h := range placements {
		one := r
		one.Placements, one.Label, one.Service = nil, h.Label, h.Service
		all.Go(func() { drafts[i] = b.draftPlacement(ctx, u, one, d) })
	}
	all.Wait()
	used := -1
	for i := range placements {
		if backend, err := b.Backend(placements[i].Service, placements[i].Label); err == nil {
			placements[i].Account = backend.Account(u)
		}
		switch err := drafts[i].err; {
		case dispatch.Is(err, dispatch.Forbidden), dispatch.Is(err, dispatch.Unavailable), dispatch.Is(err,
			dispatch.DocumentUnreachable), dispatch.Is(err, dispatch.SignInRequired):
			placements[i].Unused = dispatch.TextFor(err)
			continue
		case err != nil:
			return nil, nil, cmp.Or(comparePlacements(placements, drafts, used, i), atPlacement(err, i))
		}
		j := drafts[i].Job
		placements[i].Base, placements[i].Hash, placements[i].Notice = j.Base, j.Service, drafts[i].notice
		if document := drafts[i].Document; document != nil && !document.Service.Inline() {
			placements[i].Document = document.Hash()
		}
		if used < 0 {
			used = i
			continue
		}
		if err := comparePlacements(placements, drafts, used, i); err != nil {
			return nil, nil, err
		}
	}
	if used < 0 {
		return nil, nil, drafts[0].err
	}
	return placements, drafts, nil
}

func (b *Broker) draftPlacement(ctx context.Context, u dispatch.UserID, r dispatch.Request,
	d *dispatch.Dimension) (h placementDraft) {
	if h.taskDraft, h.err = b.draft(ctx, u, r, d); h.err != nil && !dispatch.Is(h.err, dispatch.Invalid) {
		return h
	}
	// that of a rule; a request with one is refused
	h.request.Options, h.Budgeted = h.request.OptionsWithout(dispatch.OptionBudget), false
	ctx, cancel := context.WithTimeout(ctx, dispatch.CheckWithin)
	defer cancel()
	h.notice = b.missingSignIn(ctx, h.Account)
	var err error
	switch h.parameters, err = b.Parameters(ctx, u, r.Service, r.Label); {
	case dispatch.Is(err, dispatch.Unsupported): // the platform describes no services
	case h.err != nil: // perhaps because its parameters are others than those of the first placement
		h.described = err == nil
	case err != nil && ctx.Err() != nil:
		h.err = &dispatch.Error{Kind: dispatch.Unavailable, Op: "dispatch.Accept",
			Text: "The description of the service there could not be read in time.", Err: err}
	default:
		h.described, h.err = true, err
	}
	return h
}

// missingSignIn returns what a user must do before jobs run under an account of theirs; "": nothing, or it is not known
// now.
func (b *Broker) missingSignIn(ctx context.Context, a dispatch.Account) string {
	backend := b.BackendNamed(a.Platform())
	if backend == nil || backend.Access != dispatch.AccessUser {
		return ""
	}
	if _, err := b.Token(ctx, a); dispatch.Is(err, dispatch.SignInRequired) {
		return dispatch.TextFor(err)
	}
	return ""
}

// atPlacement returns an error about the service of a request as one about the placement with that index.
func atPlacement(err error, i int) error {
	e, ok := errors.AsType[*dispatch.Error](err)
	if !ok || e.Kind != dispatch.Invalid && e.Kind != dispatch.DocumentInvalid {
		return err
	}
	at := *e
	at.Faults = slices.Clone(e.Faults)
	for n, f := range at.Faults {
		if len(f.Loc) > 1 && f.Loc[1] == "service" {
			at.Faults[n].Loc = slices.Concat([]any{"body", "services", i}, f.Loc[2:])
		}
	}
	return &at
}

// comparePlacements returns Invalid if a placement is at the same platform as one before it, or its parameters differ
// from those of the first that is used.
func comparePlacements(placements []dispatch.Placement, drafts []placementDraft, first, i int) error {
	for _, before := range placements[:i] {
		if before.Account == placements[i].Account {
			return dispatch.InvalidBody("dispatch.Accept",
				fmt.Sprintf("Two of the services are at the platform %s. A task can use one service at each platform.",
					before.Account.Platform()), "services", i)
		}
	}
	if first < 0 || !drafts[first].described || !drafts[i].described {
		return nil
	}
	if differ := differences(drafts[first].parameters, drafts[i].parameters); len(differ) > 0 {
		return dispatch.InvalidBody("dispatch.Accept",
			fmt.Sprintf("The services at %s and %s have different parameters: %s. Use only one of them.",
				placements[first].Account.Platform(), placements[i].Account.Platform(),
				dispatch.Shortened(strings.Join(differ, "; "))), "services", i)
	}
	return nil
}

// differences returns in which parameters two services differ, in words.
func differences(a, b []dispatch.Parameter) (all []string) {
	for _, p := range a {
		i := slices.IndexFunc(b, func(q dispatch.Parameter) bool { return q.Name == p.Name })
		if i < 0 {
			all = append(all, fmt.Sprintf("only the first has %q", p.Name))
			continue
		}
		if what := p.Difference(b[i]); what != "" {
			all = append(all, fmt.Sprintf("%q differs in its %s", p.Name, what))
		}
	}
	for _, q := range b {
		if !slices.ContainsFunc(a, func(p dispatch.Parameter) bool { return p.Name == q.Name }) {
			all = append(all, fmt.Sprintf("only the second has %q", q.Name))
		}
	}
	return all
}

// SpreadTasks moves the jobs of tasks with several placements between them until ctx is done. Every process runs it.
func (b *Broker) SpreadTasks(ctx context.Context) {
	seen := map[dispatch.TaskID]int64{} // SpreadTask.Seen of tasks since they were planned last
	for ctx.Err() == nil {
		tasks, err := b.Store.SpreadTasks(ctx)
		switch {
		case err == nil:
			seen = b.spreadAll(ctx, tasks, seen)
		case ctx.Err() == nil:
			b.Log.Log(ctx, dispatch.LogLevel(err), "reading the tasks with several services failed", "error", err)
		}
		_ = dispatch.Sleep(ctx, spreadEvery)
	}
}

// spreadAll plans tasks, and returns their numbers. A task whose number has changed was changed by its owner or by
// another process: all its placements are visited.
func (b *Broker) spreadAll(ctx context.Context, tasks []dispatch.SpreadTask,
	before map[dispatch.TaskID]int64) map[dispatch.TaskID]int64 {
	seen := make(map[dispatch.TaskID]int64, len(tasks))
	for _, t := range tasks {
		if before[t.ID] != t.Seen {
			for _, h := range t.Placements {
				b.Wake(h.Account)
			}
		}
		if err := b.spreadOne(ctx, &t); err != nil && ctx.Err() == nil {
			b.Log.Log(ctx, dispatch.LogLevel(err), "moving jobs to another platform failed", "task", int64(t.ID),
				"error", err)
		}
		seen[t.ID] = t.Seen
	}
	return seen
}

func (b *Broker) spreadOne(ctx context.Context, t *dispatch.SpreadTask) (err error) {
	defer dispatch.RecoverAsError(ctx, b.Log, "spreading a task", &err)
	placements := make([]placementPlan, len(t.Placements))
	for i, h := range t.Placements {
		placements[i].PlacementLoad = h
		backend := b.BackendNamed(h.Account.Platform())
		if backend == nil {
			placements[i].Why, placements[i].limits = dispatch.NoPlatform, dispatch.Limits{Jobs: 1}
			continue
		}
		// the usual run time there, by the runs of the owner
		runs, err := b.Records.FinishedRuns(ctx, t.Owner, h.Account, h.Hash, usualFrom)
		if err != nil {
			return err
		}
		placements[i].limits, placements[i].runTime = backend.Limits,
			forecast.Usual(forecast.TimesOf(runs, backend.Limits.Send))
	}
	moved := 0
	for _, m := range planMoves(placements) {
		n, err := b.moveJobs(ctx, t, dispatch.JobMove{Task: t.ID, From: placements[m.from].Placement,
			To: placements[m.to].Placement, Skip: m.skip, N: m.n, Retrying: m.retrying})
		if err != nil {
			return err
		}
		moved += n
	}
	if moved > 0 {
		b.NotifyUser(t.Owner)
	}
	return nil
}

// moveJobs moves jobs, or as many of them as the user's quota at the other platform leaves room for.
func (b *Broker) moveJobs(ctx context.Context, t *dispatch.SpreadTask, m dispatch.JobMove) (n int, err error) {
	within := b.quotas(m.To.Account)[1:] // a move uses no more of the quota for all platforms
	for ; m.N > 0; m.N /= 2 {
		m.Seen = t.Seen
		n, t.Seen, err = b.Store.MoveJobs(ctx, m, within...)
		if dispatch.Is(err, dispatch.LimitReached) {
			continue
		}
		if n > 0 {
			b.counted.Delete(m.From.Account)
			b.counted.Delete(m.To.Account)
			b.Wake(m.To.Account)
			b.Log.InfoContext(ctx, "jobs of a task were moved", "task", int64(m.Task), "account",
				string(m.From.Account), "to", string(m.To.Account), "jobs", n)
		}
		return n, err
	}
	return 0, nil
}
