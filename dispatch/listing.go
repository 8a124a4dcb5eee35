package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	listingPays  = 4                // due statuses from which one listing is cheaper than reading each
	listingAgain = 30 * time.Second // what a listing did not show is read singly, and not listed again at once
)

// unlisted is which bases turned out not to be listable, though the platform is able to list.
type unlisted struct{ bases sync.Map }

type baseOf struct{ platform, base string }

func (u *unlisted) add(platform, base string) { u.bases.Store(baseOf{platform, base}, true) }

func (u *unlisted) has(platform, base string) bool {
	_, has := u.bases.Load(baseOf{platform, base})
	return has
}

func (v *visit) listable(base string) bool {
	_, can := v.Platform.(Lister)
	return can && !v.unlisted.has(v.Name, base)
}

// listingPays reports whether as many jobs below a base are due that one listing is cheaper.
func (v *visit) listingPays(base string) bool {
	n := 0
	for _, j := range v.agenda.Learn {
		if j.Base == base {
			n++
		}
	}
	return n >= listingPays && v.listable(base) && time.Since(v.listed[base]) > listingAgain
}

// listing is one request for all that is due below a base and can be read from a list: creates in doubt, and statuses.
func (v *visit) listing(base string) step {
	v.listed[base] = time.Now()
	var jobs []Job
	for _, j := range slices.Concat(v.agenda.Settle, v.agenda.Learn) {
		if j.Base == base && (j.Phase == Creating || j.Phase == Started) && !v.busy[j.ID] {
			jobs = append(jobs, j)
		}
	}
	return step{jobs: jobs, ask: func(ctx context.Context, t Token, jobs []Job) []answer { return v.list(ctx, t, base, jobs) }}
}

// list reads the whole listing and says what it means for each job. One that breaks off says nothing about what was
// not seen; where there is none, all is asked singly from now on.
func (v *visit) list(ctx context.Context, t Token, base string, jobs []Job) []answer {
	m := match{seen: map[JobID]bool{}, started: !v.Platform.TwoStep(), installation: v.Installation}
	for l, err := range v.Platform.(Lister).List(ctx, t, base) {
		if Is(err, Unsupported) {
			v.unlisted.add(v.Name, base)
			return m.answers
		}
		if err != nil {
			return append(m.answers, v.unseen(jobs, m.seen, err)...)
		}
		m.add(jobs, l)
	}
	return append(m.answers, v.unseen(jobs, m.seen, nil)...)
}

// match collects what listed jobs mean for ours.
type match struct {
	answers      []answer
	seen         map[JobID]bool
	started      bool // what is there has started, whatever a lagging status says
	installation string
}

func (m *match) add(jobs []Job, l Listed) {
	id, attempt, tagged := parseTag(m.installation, l.Tag)
	for _, j := range jobs {
		switch {
		case j.Ref == l.Ref:
			m.put(j, Outcome{Asked: AskStatus, Attempt: j.Attempt, Turn: j.Turn, Ref: l.Ref, Report: l.Report})
		case tagged && j.ID == id && attempt == j.Attempt && j.Phase == Creating:
			m.put(j, Outcome{Asked: AskSearch, Attempt: attempt, Turn: j.Turn, Ref: l.Ref, Started: m.started, Report: l.Report})
		case tagged && j.ID == id && !l.Report.Status.Final(): // of an earlier attempt: a stray
			m.answers = append(m.answers, answer{j, Outcome{Asked: AskSearch, Attempt: attempt, Turn: -1, Ref: l.Ref}})
		}
	}
}

func (m *match) put(j Job, o Outcome) {
	m.answers, m.seen[j.ID] = append(m.answers, answer{j, o}), true
}

// unseen is what it means for the jobs that a listing did not show.
func (v *visit) unseen(jobs []Job, seen map[JobID]bool, err error) []answer {
	var answers []answer
	for _, j := range jobs {
		o := Outcome{Asked: AskStatus, Ref: j.Ref}
		if j.Phase == Creating {
			o = v.absent(nil, Token{}, j)
		}
		o.Attempt, o.Turn, o.Err = j.Attempt, j.Turn, err
		if !seen[j.ID] && (err != nil || j.Phase == Creating) {
			answers = append(answers, answer{j, o})
		}
	}
	return answers
}
