package visit

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// splitCreated moves the received responses that created a job which can be started at once behind the others. It
// returns the requests that start these jobs, and how many responses are before theirs. The intent of such a request is
// committed with what the response changed.
func (v *visit) splitCreated(ctx context.Context) (starts []platformRequest, others int, err error) {
	if !slices.ContainsFunc(v.unsaved, platformResponse.onlyCreated) {
		return nil, len(v.unsaved), nil
	}
	if time.Since(v.read) >= agendaFresh { // it shows what goes first, and a hold that has begun
		err = v.reloadAgenda(ctx)
	}
	if err != nil || !v.mayStartAtOnce() {
		return nil, len(v.unsaved), err
	}
	var rest, created []platformResponse
	for _, f := range v.unsaved {
		if j, can := v.startable(f); can {
			created = append(created, f)
			starts = append(starts, platformRequest{step: v.singleStep(classSubmit, j), token: v.pass,
				refusals: v.refusals, at: time.Now(), created: true})
		} else {
			rest = append(rest, f)
		}
	}
	v.unsaved = append(rest, created...)
	return starts, len(rest), nil
}

// mayStartAtOnce reports whether jobs may be started now, by the agenda.
func (v *visit) mayStartAtOnce() bool {
	return v.backend.Limits.Pace == 0 && !v.careful && !v.woken && !v.uncertain && !v.visits.backlog.full() &&
		!time.Now().Before(v.resume) && v.agenda.Restored == dispatch.NotRestored && !v.now().Before(v.agenda.Hold) &&
		v.queue.nextClass(v.maySend) >= classSubmit
}

func (f platformResponse) onlyCreated() bool {
	return f.submits() && len(f.outcomes) == 1 && f.outcomes[0].Ref != (dispatch.Ref{}) && !f.outcomes[0].Started
}

// startable returns the job after a response that created it, if nothing but its start is due.
func (v *visit) startable(f platformResponse) (dispatch.Job, bool) {
	if !f.onlyCreated() {
		return dispatch.Job{}, false
	}
	j := v.outcomesOf([]platformResponse{f})[0].next(v.now())
	return j, j.Phase == dispatch.Created && j.Desired == dispatch.WantRun && len(j.Orphans) == 0 && j.Begun == 0 &&
		!j.Due.After(v.now())
}

// endCreated forgets the responses from others on whose jobs were stored with the intents to start them. The remaining
// ones are saved later.
func (v *visit) endCreated(ctx context.Context, others int, intended map[dispatch.JobID]*dispatch.Job) error {
	var err error
	left := slices.Clone(v.unsaved[:others])
	for _, f := range v.unsaved[others:] {
		j, started := intended[f.jobs[0].ID]
		if !started {
			left = append(left, f)
			continue
		}
		v.kept = true
		v.releaseGate(j.ID)
		v.visits.Hub.NotifySaved(ctx, f.outcomes[0].job, *j, nil)
		err = cmp.Or(err, v.noteResponse(ctx, f.outcomes[0].Outcome))
	}
	v.unsaved = left
	return err
}
