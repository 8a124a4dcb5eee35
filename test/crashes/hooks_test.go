package crashes

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// received is a receiver that keeps the ids of what it receives.
type received struct {
	*httptest.Server
	mu  sync.Mutex
	ids map[string]int
}

func newReceived(t *testing.T) *received {
	r := &received{ids: map[string]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		var e struct{ ID string }
		if err := json.NewDecoder(q.Body).Decode(&e); err != nil || e.ID == "" {
			t.Errorf("%+v, %v", e, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ids[e.ID]++
	}))
	t.Cleanup(r.Close)
	return r
}

// all returns how many different messages arrived, and how many times the most frequent did.
func (r *received) all() (ids, most int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.ids {
		most = max(most, n)
	}
	return len(r.ids), most
}

// TestCrashes_OfDeliveries kills the program at each point of a delivery. The next process sends what is missing: the
// ends of the jobs of a task, its shares and its end. Without -full, two points.
func TestCrashes_OfDeliveries(t *testing.T) {
	for i, point := range []string{"settle before", "claim after", "claim before", "deliver before", "deliver sent",
		"deliver after", "settle after"} {
		for name, database := range map[string]func(*testing.T) string{
			"SQLite":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "d.db") },
			"PostgreSQL": func(t *testing.T) string { return postgres.Database(t) },
		} {
			if !*full && (i > 1 || (i == 0) != (name == "SQLite")) {
				continue
			}
			t.Run(name+"/"+point, func(t *testing.T) {
				t.Parallel()
				killDelivery(t, point, database(t))
			})
		}
	}
}

// messages are those of a task of four jobs: four ends, three shares, and its end.
const messages = 8

func killDelivery(t *testing.T, point, dsn string) {
	c := crash{ogc: true, life: simulator.Life{Run: time.Second}}
	s, r := c.scene(t), newReceived(t)
	environ := c.environment(t, s, dsn)
	task := map[string]any{"dimension": map[string]any{"name": "bbox", "values": []any{}},
		"options": map[string]any{"notify": map[string]any{"url": r.URL + "/notified", "events": []string{"finished",
			"task_share", "task_ended"}}}}
	for name, member := range s.job {
		task[name] = member
	}
	for i := range 4 {
		box := map[string]any{"bbox": []float64{5, 51 + float64(i), 5.1, 51.1 + float64(i)}}
		task["dimension"].(map[string]any)["values"] = append(task["dimension"].(map[string]any)["values"].([]any), box)
	}
	task["parameters"] = map[string]any{}
	p := launch(t, mortal, environ, "EODISPATCH_DIE="+point)
	if err := p.ask(t.Context(), http.MethodPost, "/upscale_tasks", "once", task, nil); err != nil {
		t.Fatal(err)
	}
	if !p.dies(t, 3*time.Minute) {
		t.Fatalf("the program ended before %q", point)
	}
	p = launch(t, mortal, environ)
	if !until(5*time.Minute, func() bool { ids, _ := r.all(); return ids >= messages }) {
		ids, _ := r.all()
		t.Fatalf("%d of %d messages arrived", ids, messages)
	}
	p.stop(t)
	if ids, most := r.all(); ids != messages || most > 2 {
		t.Errorf("%d messages, one of them %d times", ids, most)
	}
}
