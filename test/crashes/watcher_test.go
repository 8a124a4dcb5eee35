package crashes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/eodispatch/eodispatch/dispatch"
)

// shown is the state that a client knows: its tasks and jobs as JSON, without their times, by "t" or "j" followed by
// the id.
type shown map[string]string

// statusData is the data of a message: the status of a list or of one task, or its changes.
type statusData struct {
	ID             int64             `json:"id"` // id of the task; 0 in a list
	Jobs           []json.RawMessage `json:"jobs"`
	UpscalingTasks []json.RawMessage `json:"upscaling_tasks"`
	ProcessingJobs []json.RawMessage `json:"processing_jobs"`
	RemovedTasks   []int64           `json:"removed_upscaling_tasks"`
	RemovedJobs    []int64           `json:"removed_processing_jobs"`
}

// fold applies the data of a message to the state.
func (s shown) fold(data json.RawMessage) error {
	var t statusData
	if err := json.Unmarshal(data, &t); err != nil {
		return err
	}
	if t.ID != 0 {
		t.UpscalingTasks, t.ProcessingJobs = []json.RawMessage{data}, t.Jobs
	}
	for kind, all := range map[string][]json.RawMessage{"t": t.UpscalingTasks, "j": t.ProcessingJobs} {
		for _, one := range all {
			if err := s.put(kind, one); err != nil {
				return err
			}
		}
	}
	for kind, gone := range map[string][]int64{"t": t.RemovedTasks, "j": t.RemovedJobs} {
		for _, id := range gone {
			delete(s, fmt.Sprint(kind, id))
		}
	}
	return nil
}

func (s shown) put(kind string, one json.RawMessage) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(one, &members); err != nil {
		return err
	}
	for _, other := range []string{"checked", "jobs", "service", "created", "updated"} { // some messages omit these
		delete(members, other)
	}
	text, err := json.Marshal(members)
	s[kind+string(members["id"])] = string(text)
	return err
}

// status returns the status of a job, or "" if the client does not know the job.
func (s shown) status(id int64) dispatch.Status {
	var j struct{ Status dispatch.Status }
	_ = json.Unmarshal([]byte(s[fmt.Sprint("j", id)]), &j) // fails for an unknown job, which has no status
	return j.Status
}

// watcher is a client that watches the user's list or one task. It opens one stream after the other.
type watcher struct {
	user     *user
	path     string
	interval int // seconds
	changes  bool
	news     chan struct{} // signals a message; may be nil

	mu      sync.Mutex
	at      *program          // the program that serves its stream; nil without a stream
	whole   json.RawMessage   // the last complete state
	since   []json.RawMessage // changes after it
	streams int
	broken  int // streams that the client did not close
}

// watch opens streams until ctx is done. It closes each stream after a while, until stay is closed; after that it keeps
// its stream.
func (w *watcher) watch(ctx context.Context, s *soak, stay <-chan struct{}) {
	for ctx.Err() == nil {
		life := time.Duration(float64(s.visit) * (0.2 + rand.Float64()))
		stream, leave := context.WithCancel(ctx)
		go func() {
			defer leave()
			select {
			case <-time.After(life):
			case <-stream.Done():
				return
			}
			select {
			case <-stay:
				<-stream.Done()
			default:
			}
		}()
		if err := w.stream(stream, s.any()); err != nil && stream.Err() == nil {
			w.count(&w.broken)
			select {
			// real clients do not reconnect all at once either
			case <-time.After(time.Duration(rand.Int64N(int64(time.Second)))):
			case <-ctx.Done():
			}
		}
		leave()
	}
}

func (w *watcher) count(what *int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*what++
}

// move records the program that serves the watcher's stream.
func (w *watcher) move(to *program) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = to
}

// isAt reports whether a program serves the watcher's stream.
func (w *watcher) isAt(p *program) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at == p
}

// stream opens one WebSocket and reads it until it ends. It returns the error that ended it.
func (w *watcher) stream(ctx context.Context, p *program) error {
	token, err := w.user.signIn()
	if err != nil {
		return err
	}
	c, _, err := websocket.Dial(ctx, fmt.Sprintf("ws%s%s?token=%s&interval=%d&changes=%v", p.Address[len("http"):],
		w.path, token, w.interval, w.changes), nil)
	if err != nil {
		return err
	}
	defer c.CloseNow()
	c.SetReadLimit(-1)
	w.count(&w.streams)
	w.move(p)
	defer w.move(nil)
	for {
		_, text, err := c.Read(ctx)
		if err != nil {
			return err
		}
		var m struct {
			Type string          `json:"type"`
			Data json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(text, &m); err != nil {
			return err
		}
		w.heed(m.Type, m.Data)
	}
}

func (w *watcher) heed(kind string, data json.RawMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch kind {
	case "status":
		w.whole, w.since = data, nil
	case "changes":
		w.since = append(w.since, data)
	}
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// await waits until enough returns true for the received state. It fails the test after three minutes.
func (w *watcher) await(t *testing.T, enough func(shown) bool) {
	t.Helper()
	late := time.After(3 * time.Minute)
	for {
		select {
		case <-w.news:
		case <-late:
			t.Fatal("the client is not notified in three minutes")
		}
		seen, err := w.sees()
		if err != nil {
			t.Fatal(err)
		}
		if enough(seen) {
			return
		}
	}
}

// sees returns the state that results from the received messages.
func (w *watcher) sees() (shown, error) {
	w.mu.Lock()
	whole, since := w.whole, slices.Clone(w.since)
	w.mu.Unlock()
	s := shown{}
	if whole == nil {
		return s, nil
	}
	if err := s.fold(whole); err != nil {
		return nil, err
	}
	for _, data := range since {
		if err := s.fold(data); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// differs returns an example of a difference between the client's state and that which GET returns, or "" if they are
// equal.
func (w *watcher) differs(want shown) string {
	got, err := w.sees()
	if err != nil {
		return err.Error()
	}
	for key := range maps.Keys(want) {
		if got[key] != want[key] {
			return fmt.Sprintf("%s (changes: %v) received %s, want %s", w.path, w.changes, got[key], want[key])
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%s (changes: %v) knows %d tasks and jobs, want %d", w.path, w.changes, len(got), len(want))
	}
	return ""
}
