package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/eodispatch/eodispatch/dispatch"
)

// walk calls what the conformance suites do not call, so that its statements are recorded. What the methods do is
// tested elsewhere.
func walk(t *testing.T, s *Store) {
	for _, part := range []func(context.Context, *Store) error{
		walkOpen, walkHooks, walkVault, walkSessions, walkTaskChanges, walkRetention, walkImport, walkPersonal,
	} {
		if err := part(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

func walkOpen(ctx context.Context, s *Store) error {
	return errors.Join(s.prepare(ctx, s.write, goose.DialectSQLite3), s.SkipIDs(ctx))
}

func walkDrafts(n int) []dispatch.Draft {
	jobs := make([]dispatch.Draft, n)
	for i := range jobs {
		jobs[i] = dispatch.Draft{Body: []byte(`{"title":"t","parameters":{}}`), Job: dispatch.Job{
			Identity: dispatch.Identity{Number: i + 1, Owner: "ann"}, Target: dispatch.Target{Account: "p/ann"},
			Wish: dispatch.Wish{Desired: dispatch.WantRun}, Handover: dispatch.Handover{Phase: dispatch.Waiting},
			Condition: dispatch.Condition{Status: dispatch.Accepted}}}
	}
	return jobs
}

func walkTask() *dispatch.Task {
	return &dispatch.Task{Owner: "ann", Account: "p/ann", Dimension: "d",
		Request: dispatch.Request{Parameters: []byte(`{}`)}}
}

// walkExec runs a statement that no method has.
func walkExec(ctx context.Context, s *Store, text string) error {
	_, err := s.write.ExecContext(ctx, text)
	return err
}

func walkHooks(ctx context.Context, s *Store) error {
	task, jobs := walkTask(), walkDrafts(2)
	task.Trial, task.Paused, task.PausedFor = 1, true, dispatch.Trial
	hook := dispatch.Hook{ID: "h", Owner: "ann", Kind: dispatch.Webhook, Sealed: dispatch.Sealed{Key: "k", Text: "t"},
		Statuses: []dispatch.Status{dispatch.Finished, dispatch.TaskEnded, dispatch.NeedsOwner}}
	hookOf := func(id string, kind dispatch.HookKind, statuses ...dispatch.Status) dispatch.Hook {
		return dispatch.Hook{ID: id, Owner: "ann", Kind: kind, Sealed: hook.Sealed, Statuses: statuses}
	}
	task.Hooks = []dispatch.Hook{hookOf("progress", dispatch.OGCSubscriber, dispatch.Running),
		hookOf("owner", dispatch.Webhook, dispatch.NeedsOwner)}
	_, err := s.Accept(ctx, dispatch.Key{}, task, jobs)
	_, _, served := s.LastServed(ctx)
	err = errors.Join(err, served, s.AddHook(ctx, hook, 2))
	_, failed := s.Hook(ctx, "ann", "h")
	err = errors.Join(err, failed)
	_, failed = s.Hooks(ctx, "ann", 0, 0)
	err = errors.Join(err, failed, s.TestHook(ctx, "ann", "h"))
	for _, j := range jobs {
		j.Phase, j.Status, j.Epoch = dispatch.Ended, dispatch.Finished, 1
		_, failed = s.Save(ctx, []dispatch.Job{j.Job})
		err = errors.Join(err, failed)
	}
	due, failed := s.DueHooks(ctx, 10, 10)
	err = errors.Join(err, failed)
	for _, h := range due {
		claimed, failed := s.ClaimDeliveries(ctx, h.ID, time.Hour, 10)
		err = errors.Join(err, failed, s.SettleDeliveries(ctx, h, claimed))
		h.Gone = true
		err = errors.Join(err, s.SettleDeliveries(ctx, h, claimed))
	}
	deliveries, failed := s.Deliveries(ctx, "ann", "h", 10)
	err = errors.Join(err, failed)
	if len(deliveries) == 0 {
		return errors.Join(err, errors.New("there are no deliveries"))
	}
	_, failed = s.HookTroubles(ctx, time.Hour)
	return errors.Join(err, failed, s.SendAgain(ctx, "ann", "h", deliveries[0].Event), s.DeleteHook(ctx, "ann", "h"),
		walkExec(ctx, s, `INSERT INTO hooks (id, owner, kind, job, url, statuses, key, sealed, created)
			VALUES ('orphan', 'ann', 'webhook', 999999, '', '', '', '', 1)`), s.Purge(ctx, time.Hour))
}

func walkGrant() dispatch.Grant {
	return dispatch.Grant{ID: "g", Owner: "ann", Issuer: "i", Kind: dispatch.OfflineGrant, Created: time.Now(),
		Renewed: time.Now(), Sealed: dispatch.Sealed{Key: "k", Text: "t"}}
}

func walkVault(ctx context.Context, s *Store) error {
	sealed := dispatch.Sealed{Key: "k", Text: "t"}
	until := time.Now().Add(time.Hour)
	g := walkGrant()
	err := errors.Join(s.KeepGrant(ctx, g), s.Hold(ctx, "p/ann", time.Hour, dispatch.NeedsSignIn, ""))
	g, failed := s.Grant(ctx, "ann", "i")
	err = errors.Join(err, failed)
	_, failed = s.Grants(ctx, "ann")
	err = errors.Join(err, failed)
	g, failed = s.RenewGrant(ctx, g)
	err = errors.Join(err, failed, s.Withdraw(ctx, "ann", g.ID))
	_, failed = s.HasWithdrawn(ctx, "ann", "i")
	err = errors.Join(err, failed)
	_, failed = s.Revocations(ctx, "i", until, 10)
	err = errors.Join(err, failed)
	_, failed = s.HasRevocation(ctx, "g")
	err = errors.Join(err, failed, s.EraseRevocation(ctx, "g"), s.KeepGrant(ctx, g))
	err = errors.Join(err, s.EraseGrant(ctx, "ann", g.ID))
	err = errors.Join(err, s.KeepToken(ctx, dispatch.SealedToken{Name: "t", Owner: "ann", Sealed: sealed,
		Expires: until}))
	_, _, failed = s.FindToken(ctx, "t")
	err = errors.Join(err, failed, s.EraseToken(ctx, "t", until), s.EraseTokens(ctx, "ann"))
	_, failed = s.UseOnce(ctx, "once", until)
	err = errors.Join(err, failed)
	_, failed = s.AccountsWithJobs(ctx)
	err = errors.Join(err, failed)
	_, failed = s.Reseal(ctx, dispatch.SealedRow{Table: "tokens"}, sealed)
	err = errors.Join(err, failed)
	_, failed = s.SealedRows(ctx, "tokens", "", "", 10)
	err = errors.Join(err, failed)
	_, failed = s.SealedCounts(ctx)
	return errors.Join(err, failed)
}

func walkSessions(ctx context.Context, s *Store) error {
	n := dispatch.Session{ID: "s", Owner: "ann", Issuer: "i", SID: "sid", Created: time.Now(),
		Ends: time.Now().Add(time.Hour), Sealed: dispatch.Sealed{Key: "k", Text: "t"}}
	err := s.AddSession(ctx, n, 2)
	n, failed := s.Session(ctx, "s")
	err = errors.Join(err, failed)
	n, failed = s.RenewSession(ctx, n)
	err = errors.Join(err, failed, s.ExtendSession(ctx, "s", n.Ends.Add(time.Hour)), s.EndSession(ctx, "s"))
	for _, u := range []dispatch.UserID{"ann", ""} {
		_, failed = s.EndSessions(ctx, "i", string(u), u)
		err = errors.Join(err, failed)
	}
	return err
}

// walkTaskChanges interrupts a change, which another one then finishes.
func walkTaskChanges(ctx context.Context, s *Store) error {
	task := walkTask()
	if _, err := s.Accept(ctx, dispatch.Key{}, task, walkDrafts(3)); err != nil {
		return err
	}
	within, leave := context.WithCancel(ctx)
	defer leave()
	s.ChangeInRanges(1, func(context.Context) { leave() })
	_, _ = s.PauseTask(within, "ann", task.ID)
	s.ChangeInRanges(0, nil)
	_, err := s.FinishChanges(ctx, 0)
	_, failed := s.CancelTask(ctx, "ann", task.ID, true)
	return errors.Join(err, failed)
}

func walkRetention(ctx context.Context, s *Store) error {
	task, jobs := walkTask(), walkDrafts(2)
	_, err := s.Accept(ctx, dispatch.Key{}, task, walkDrafts(1))
	_, failed := s.Accept(ctx, dispatch.Key{}, nil, jobs)
	all := dispatch.Retention{Platform: time.Hour, Results: time.Hour, Requests: time.Hour, Jobs: 1000 * time.Hour}
	err = errors.Join(err, failed,
		walkExec(ctx, s, `UPDATE jobs SET phase = 'ended', status = 'failed', moved = 1, attempt = 1, ref_id = 'x'`),
		walkExec(ctx, s, `UPDATE tasks SET created = 1`),
		walkExec(ctx, s, `INSERT INTO results (job, body) SELECT id, '{}' FROM jobs`))
	_, failed = s.Aged(ctx, all)
	err = errors.Join(err, failed, s.Retain(ctx, all), walkExec(ctx, s, "UPDATE jobs SET removal_due = 0"))
	all.Platform, all.Jobs = 0, time.Hour
	return errors.Join(err, s.Retain(ctx, all), s.Purge(ctx, 0))
}

func walkImport(ctx context.Context, s *Store) error {
	task, jobs := walkTask(), walkDrafts(1)
	task.ID, jobs[0].ID, jobs[0].Task = 1_000_000, 1_000_000, 1_000_000
	_, err := s.WouldImport(ctx, task, jobs)
	_, failed := s.Import(ctx, task, jobs)
	return errors.Join(err, failed)
}

func walkPersonal(ctx context.Context, s *Store) error {
	_, err := s.Accept(ctx, dispatch.Key{}, nil, walkDrafts(1))
	err = errors.Join(err, s.CancelAll(ctx, "ann"), s.Export(ctx, "ann", func(Owned) error { return nil }))
	err = errors.Join(err, s.KeepGrant(ctx, walkGrant()))
	_, _, failed := s.Forget(ctx, "ann")
	return errors.Join(err, failed)
}
