package conformance

import (
	"time"

	"pgregory.net/rapid"

	"github.com/eodispatch/eodispatch/dispatch"
)

// starts checks that observed starts add up per platform and are visible to all processes.
func (t storeTest) starts() {
	ctx := t.Context()
	t.accept()
	note := func(seen dispatch.StartsSeen) { t.Helper(); t.must(t.s.NoteStarts(ctx, "p", seen)) }
	is := func(starts int, lag time.Duration) {
		t.Helper()
		want := dispatch.Promptness{Starts: starts, Lag: lag}
		t.equal(t.readAgenda().Starts, want)
		all, err := t.db.Open().AccountInfo(ctx, ann, []dispatch.Account{shared, "r/shared"}, nil)
		t.must(err)
		t.equal([]dispatch.Promptness{all[0].Starts, all[1].Starts}, []dispatch.Promptness{want, {}})
	}
	is(0, 0)
	note(dispatch.StartsSeen{Prompt: 3})
	note(dispatch.StartsSeen{Prompt: 2, Lag: 40 * time.Second})
	is(5, 40*time.Second)
	note(dispatch.StartsSeen{Lagged: true, Lag: 30 * time.Second, Prompt: 1})
	is(1, 40*time.Second)
	note(dispatch.StartsSeen{Lagged: true, Lag: 5 * time.Minute})
	is(0, 5*time.Minute)
	t.must(t.s.NoteResponse(ctx, "p", "", 0))
	note(dispatch.StartsSeen{Prompt: 26})
	is(26, 5*time.Minute)
	t.must(t.s.NoteStarts(ctx, "other", dispatch.StartsSeen{Lagged: true, Prompt: 1, Lag: time.Hour}))
	is(26, 5*time.Minute)
}

func (p *pair) noteStarts(r *rapid.T) {
	seen := dispatch.StartsSeen{Prompt: rapid.IntRange(0, 3).Draw(r, "prompt"), Lagged: rapid.Bool().Draw(r, "lagged"),
		Lag: spans.Draw(r, "lag")}
	both(p, r, func(s Store) (any, error) { return nil, s.NoteStarts(p.Context(), "p", seen) })
}
