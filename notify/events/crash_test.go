package events_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/notify/events"
)

// mortal is the store as a process sees it that dies at a point: from then on nothing that the process does reaches the
// database.
type mortal struct {
	hooks
	at   string
	dead chan struct{}
	once sync.Once
}

type hooks = events.Outbox

var errDead = errors.New("the process is dead")

// pass dies if this is the point, and reports whether the process is dead.
func (m *mortal) pass(point string) bool {
	if point == m.at {
		m.once.Do(func() { close(m.dead) })
	}
	select {
	case <-m.dead:
		return true
	default:
		return false
	}
}

func (m *mortal) ClaimDeliveries(ctx context.Context, hook string, lease time.Duration, n int) (all []dispatch.Delivery,
	err error) {
	if m.pass("before the claim") {
		return nil, errDead
	}
	if all, err = m.hooks.ClaimDeliveries(ctx, hook, lease, n); len(all) > 0 && m.pass("after the claim") {
		return nil, errDead
	}
	return all, err
}

func (m *mortal) SettleDeliveries(ctx context.Context, h dispatch.Hook, all []dispatch.Delivery) error {
	if m.pass("before the results are stored") {
		return errDead
	}
	err := m.hooks.SettleDeliveries(ctx, h, all)
	if m.pass("after the results are stored") {
		return errDead
	}
	return err
}

// TestSender_DiesAtEveryPoint: whichever step of a delivery is the last that a process does, another process sends all
// messages. They are the ends of the jobs of a task, and the events of the task itself. Those whose results were stored
// are not sent again.
func TestSender_DiesAtEveryPoint(t *testing.T) {
	for _, point := range []string{"before the claim", "after the claim",
		"before the results are stored", "after the results are stored"} {
		t.Run(point, func(t *testing.T) {
			o, r := newOutbox(t, 0), newReceiver(t)
			h, err := o.sender.Target("ann", dispatch.Notify{Kind: dispatch.Webhook, URL: r.URL,
				Statuses: []dispatch.Status{dispatch.Finished, "task_share_50", dispatch.TaskEnded}})
			if err != nil {
				t.Fatal(err)
			}
			task := &dispatch.Task{Owner: "ann", Account: "p/shared", Dimension: "tile", Hooks: []dispatch.Hook{h}}
			drafts := make([]dispatch.Draft, 4)
			for i := range drafts {
				drafts[i] = dispatch.Draft{Body: []byte(`{}`), Job: dispatch.Job{
					Identity: dispatch.Identity{Number: i + 1, Owner: "ann"},
					Target:   dispatch.Target{Account: "p/shared"}, Wish: dispatch.Wish{Desired: dispatch.WantRun},
					Handover:  dispatch.Handover{Phase: dispatch.Waiting},
					Condition: dispatch.Condition{Status: dispatch.Accepted}}}
			}
			if _, err := o.kept.Accept(t.Context(), dispatch.Key{}, task, drafts); err != nil {
				t.Fatal(err)
			}
			for _, d := range drafts {
				o.jobs = append(o.jobs, d.Job)
			}
			o.end(o.jobs, dispatch.Finished)
			dying := &mortal{hooks: o.kept, at: point, dead: make(chan struct{})}
			o.sender.Store = dying
			stop := o.run()
			select {
			case <-dying.dead:
			case <-time.After(time.Minute):
				t.Fatal("the process does not come to this point")
			}
			stop()
			o.clock.pass(time.Minute) // the lease ends
			o.sender.Store = o.kept
			o.run()
			arrived := map[string]bool{}
			for len(arrived) < 6 {
				r.await(t, 1)
				for _, id := range r.received() {
					arrived[id] = true
				}
			}
			if all := o.awaitState(h, dispatch.DeliveryDone); len(all) != 6 || len(arrived) != 6 {
				t.Errorf("%d events, %v", len(all), arrived)
			}
			sent := len(r.received())
			if point == "after the results are stored" && sent != 6 {
				t.Errorf("%d messages were sent", sent)
			}
		})
	}
}
