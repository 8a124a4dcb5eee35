package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/visit/engine"
)

// instant is a platform that answers a submission with the result, and records the order of jobs. At some of them it
// stops until it is to continue.
type instant struct {
	stops []int
	stop  chan struct{}

	mu    sync.Mutex
	order []string
}

func (*instant) TwoStep() bool                         { return false }
func (*instant) Base(dispatch.Service) (string, error) { return "", nil }

func (p *instant) Submit(_ context.Context, _ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
	p.mu.Lock()
	p.order = append(p.order, s.Title)
	stops := slices.Contains(p.stops, len(p.order))
	p.mu.Unlock()
	if stops {
		p.stop <- struct{}{}
		<-p.stop
	}
	return dispatch.SubmitResult{Ref: dispatch.Ref{ID: s.Tag}, Started: true, Result: []byte(`{}`)}, nil
}

func (*instant) Status(context.Context, dispatch.Token, dispatch.Ref) (dispatch.Report, error) {
	return dispatch.Report{Status: dispatch.Finished}, nil
}

func (*instant) Results(context.Context, dispatch.Token, dispatch.Ref) (json.RawMessage, error) {
	return json.RawMessage(`{}`), nil
}

// reached returns when the next stop is reached.
func (p *instant) reached(t *testing.T) {
	t.Helper()
	select {
	case <-p.stop:
	case <-time.After(3 * time.Minute):
		t.Fatalf("nothing comes after %d jobs", len(p.taken()))
	}
}

// taken returns the titles of the tasks whose jobs were submitted, in order.
func (p *instant) taken() (titles []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.order {
		title, _, _ := strings.Cut(t, " - ")
		titles = append(titles, title)
	}
	return titles
}

type noTokens struct{}

func (noTokens) Token(context.Context, dispatch.Account) (dispatch.Token, error) {
	return dispatch.Token{}, nil
}
func (noTokens) Invalidate(dispatch.Account, dispatch.Token) {}

// replica is a broker with one slot at a platform. It visits accounts once it runs.
type replica struct {
	*broker.Broker
	stopping context.Context // done when it takes up no other job
	stop     func()
}

func newReplica(s conformance.Store, p dispatch.Platform) *replica {
	return &replica{Broker: conformance.NewBroker(s, noTokens{}, &dispatch.Backend{
		Name: "p", Label: dispatch.OGCProcess, Endpoint: "https://p.example", Access: dispatch.AccessShared,
		Platform: p, Limits: dispatch.Limits{Jobs: 1, Requests: 4, Send: 30 * time.Second}})}
}

func (r *replica) run() *replica {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Engine.(*engine.Engine).Run(ctx)
	}()
	r.stopping, r.stop = ctx, func() { cancel(); <-ended }
	return r
}

// submit submits a task and logs the queue positions of its jobs.
func (r *replica) submit(t *testing.T, u dispatch.UserID, title string, jobs int) dispatch.TaskID {
	t.Helper()
	values := slices.Repeat([]json.RawMessage{json.RawMessage("1")}, jobs)
	task, err := r.AcceptTask(t.Context(), u, dispatch.Request{Title: title, Label: dispatch.OGCProcess, Format: "json",
		Parameters: json.RawMessage(`{}`),
		Service:    dispatch.Service{Endpoint: "https://p.example", Application: "app"}}, dispatch.Dimension{Name: "d",
		Values: values}, dispatch.Key{})
	if err != nil {
		t.Fatal(err)
	}
	return task.ID
}

// places returns the queue positions of a task's jobs.
func (r *replica) places(t *testing.T, u dispatch.UserID, id dispatch.TaskID) (places []int) {
	t.Helper()
	_, jobs, err := conformance.Task(t.Context(), r.Broker, u, id, broker.AsKnown)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if j.Ahead == nil {
			t.Fatalf("job %d has no place", j.ID)
		}
		places = append(places, *j.Ahead)
	}
	return places
}

func TestTurns_UsersAreServedInTurn(t *testing.T) {
	t.Run("model", func(t *testing.T) {
		s := conformance.NewMemStore(conformance.WallClock{})
		servesInTurn(t, conformance.Database{Open: func() conformance.Store { return s },
			Restart: func() conformance.Store { return s }})
	})
	t.Run("SQLite", func(t *testing.T) {
		dsn := "sqlite:" + filepath.Join(t.TempDir(), "d.db")
		s := open(t, dsn, conformance.WallClock{})
		servesInTurn(t, conformance.Database{Open: func() conformance.Store { return s },
			Restart: func() conformance.Store {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				return open(t, dsn, conformance.WallClock{})
			}})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		dsn := postgres.Database(t)
		more := func() conformance.Store { return open(t, dsn, nil) }
		servesInTurn(t, conformance.Database{Open: more, Restart: more})
	})
}

// servesInTurn has 30 users with backlogs, one of them with two tasks, share one slot, while replicas start and stop
// and a newcomer submits a single job. Each user is served once per round, in the order of arrival, as the queue
// positions said.
func servesInTurn(t *testing.T, db conformance.Database) {
	const users, each = 30, 3
	p := &instant{stops: []int{36, 54, 72, users*each + each + 1}, stop: make(chan struct{})}
	s := db.Open()
	one, two := newReplica(s, p), newReplica(db.Open(), p)
	var came, want []string
	tasks := map[string]dispatch.TaskID{}
	for i := range users {
		u := fmt.Sprintf("user%03d", (i*7+13)%users) // not in alphabetical order
		came, tasks[u] = append(came, u), one.submit(t, dispatch.UserID(u), u, each)
	}
	one.submit(t, dispatch.UserID(came[7]), "second", each)
	want = slices.Repeat(came, each)
	want[users+7] = "second" // first, second, first, and what is left
	want = append(want, "second", came[7], "second")
	for i, u := range came {
		if i == 7 {
			continue
		}
		if places := two.places(t, dispatch.UserID(u), tasks[u]); !slices.Equal(places,
			[]int{i, users + i, 2*users + i}) {
			t.Fatalf("%s has position %v and came after %d", u, places, i)
		}
	}

	one.run()
	two.run()
	p.reached(t)
	oneEnded := make(chan struct{})
	go func() { defer close(oneEnded); one.stop() }()
	p.stop <- struct{}{}
	p.reached(t)
	two.submit(t, "newcomer", "newcomer", 1)
	p.stop <- struct{}{}
	p.reached(t)
	twoEnded := make(chan struct{})
	go func() { defer close(twoEnded); two.stop() }()
	<-two.stopping.Done() // it takes up no other job
	p.stop <- struct{}{}
	<-twoEnded
	<-oneEnded
	three := newReplica(db.Restart(), p).run()
	defer three.stop()
	p.reached(t)
	p.stop <- struct{}{}
	order := p.taken()
	if at := slices.Index(order, "newcomer"); at != 54 {
		t.Errorf("the newcomer's job came after %d others, want 54: at once", at)
	}
	if order = slices.DeleteFunc(order, func(title string) bool { return title == "newcomer" }); !slices.Equal(order,
		want) {
		t.Errorf("the order is\n%v, want\n%v", order, want)
	}
}
