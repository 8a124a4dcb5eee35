package visit

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/hub"
)

// brokenJob is a store in which the job 1 makes the program panic.
type brokenJob struct {
	Store
	saved []dispatch.Job
}

func (*brokenJob) Load(_ context.Context, id dispatch.JobID) (dispatch.Job, error) {
	if id == 1 {
		panic("a bug")
	}
	return dispatch.Job{Identity: dispatch.Identity{ID: id}, Handover: dispatch.Handover{Phase: dispatch.Starting,
		Attempt: 1, Epoch: 2, Ref: dispatch.Ref{ID: "a"}}}, nil
}

func (*brokenJob) Agenda(context.Context, dispatch.Account, int, time.Duration) (dispatch.Agenda, error) {
	return dispatch.Agenda{Now: time.Now()}, nil
}

func (s *brokenJob) Save(_ context.Context, jobs []dispatch.Job, _ ...dispatch.Account) ([]dispatch.Job, error) {
	s.saved = append(s.saved, jobs...)
	return jobs, nil
}

type noEngine struct{ dispatch.Engine }

func (noEngine) Broadcast([]dispatch.JobID, []dispatch.UserID) {}
func (noEngine) Wake(dispatch.Account)                         {}

// TestBacklog_OneResponseKeepsBackNoOther: a response that cannot be applied, because of a bug, waits alone.
func TestBacklog_OneResponseKeepsBackNoOther(t *testing.T) {
	setup, s := &dispatch.Setup{Log: slog.New(slog.DiscardHandler), Engine: noEngine{}}, &brokenJob{}
	vs := &Visits{Setup: setup, Store: s, Hub: &hub.Hub{Setup: setup}}
	for id := range dispatch.JobID(3) {
		vs.backlog.kept = append(vs.backlog.kept, jobOutcomes{
			job: dispatch.Job{Identity: dispatch.Identity{ID: id + 1}},
			outcomes: []dispatch.Outcome{{Asked: dispatch.AskSubmit, Attempt: 1, Epoch: 2, Ref: dispatch.Ref{ID: "a"},
				Started: true}}})
	}
	if n, _ := vs.saveKept(t.Context()); n != 2 || vs.Unsaved() != 1 || len(s.saved) != 2 ||
		s.saved[0].Phase != dispatch.Started {
		t.Errorf("%d responses were saved, %d wait", n, vs.Unsaved())
	}
}
