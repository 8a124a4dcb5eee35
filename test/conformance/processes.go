package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
)

// processes is Processes of api/facade/openeo, a package whose tests need this one.
type processes interface {
	SaveProcess(ctx context.Context, u dispatch.UserID, p dispatch.StoredProcess, within dispatch.ProcessQuota) error
	Process(ctx context.Context, u dispatch.UserID, id string) (dispatch.StoredProcess, error)
	Processes(ctx context.Context, u dispatch.UserID, after string, most int) ([]dispatch.StoredProcess, error)
	DeleteProcess(ctx context.Context, u dispatch.UserID, id string) error
}

// TestProcesses runs the cases that every Processes of api/facade/openeo must pass. The stores of the databases must
// implement it.
func TestProcesses(t *testing.T, open func(*testing.T) Database) {
	for name, test := range map[string]func(processesTest){
		"what was stored comes back": processesTest.fields,
		"of other users":             processesTest.owners,
		"in pages":                   processesTest.pages,
		"within the quota":           processesTest.quota,
		"at once":                    processesTest.race,
	} {
		t.Run(name, func(t *testing.T) { test(processesTest{t, open(t).Open().(processes)}) })
	}
}

type processesTest struct {
	*testing.T
	s processes
}

var plenty = dispatch.ProcessQuota{Processes: 100, Bytes: 1 << 20}

func (t processesTest) save(u dispatch.UserID, id, body string) {
	t.Helper()
	if err := t.s.SaveProcess(t.Context(), u, dispatch.StoredProcess{ID: id, Body: []byte(body)}, plenty); err != nil {
		t.Fatal(err)
	}
}

// body returns the body of a process; "" if there is none.
func (t processesTest) body(u dispatch.UserID, id string) string {
	t.Helper()
	p, err := t.s.Process(t.Context(), u, id)
	if dispatch.Is(err, dispatch.NotFound) {
		return ""
	}
	if err != nil || p.ID != id || p.Updated.IsZero() {
		t.Errorf("%+v, %v", p, err)
	}
	return string(p.Body)
}

func (t processesTest) fields() {
	const body = `{ "b": 1.50, "a": "é\u0000" }`
	t.save("ann", "p", "old")
	t.save("ann", "p", body)
	if got := t.body("ann", "p"); got != body {
		t.Errorf("got %s", got)
	}
	if err := t.s.DeleteProcess(t.Context(), "ann", "p"); err != nil || t.body("ann", "p") != "" {
		t.Errorf("deleted: %v", err)
	}
	if err := t.s.DeleteProcess(t.Context(), "ann", "p"); !dispatch.Is(err, dispatch.NotFound) {
		t.Errorf("deleted twice: %v", err)
	}
}

func (t processesTest) owners() {
	t.save("ann", "p", "hers")
	if err := t.s.DeleteProcess(t.Context(), "bob", "p"); !dispatch.Is(err, dispatch.NotFound) ||
		t.body("bob", "p") != "" {
		t.Errorf("bob: %v", err)
	}
	t.save("bob", "p", "his")
	if t.body("ann", "p") != "hers" || t.body("bob", "p") != "his" {
		t.Error("mixed up")
	}
}

func (t processesTest) pages() {
	for _, id := range []string{"c", "B", "a", "d_1", "e-f"} {
		t.save("ann", id, id)
	}
	t.save("bob", "bb", "his")
	var got []string
	for after := ""; ; after = got[len(got)-1] {
		page, err := t.s.Processes(t.Context(), "ann", after, 2)
		if err != nil || len(page) > 2 {
			t.Fatal(page, err)
		}
		if len(page) == 0 {
			break
		}
		for _, p := range page {
			got = append(got, p.ID)
		}
	}
	// databases order texts by rules of their own
	if slices.Sort(got); !slices.Equal(got, []string{"B", "a", "c", "d_1", "e-f"}) {
		t.Errorf("got %v", got)
	}
}

func (t processesTest) quota() {
	within := dispatch.ProcessQuota{Processes: 2, Bytes: 10}
	for _, row := range []struct {
		id, body string
		ok       bool
	}{{"a", "12345", true}, {"b", "123456", false}, {"b", "12345", true}, {"c", "", false}, {"a", "", true},
		{"b", "1234567890", true}, {"a", "1", false}} {
		err := t.s.SaveProcess(t.Context(), "ann", dispatch.StoredProcess{ID: row.id, Body: []byte(row.body)}, within)
		if (err == nil) != row.ok || err != nil && !dispatch.Is(err, dispatch.LimitReached) {
			t.Errorf("%s: %v", row.id, err)
		}
	}
	t.save("bob", "a", "not hers")
}

// race stores more processes at once than the quota admits.
func (t processesTest) race() {
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			_ = t.s.SaveProcess(t.Context(), "ann", dispatch.StoredProcess{ID: fmt.Sprint(i), Body: []byte("{}")},
				dispatch.ProcessQuota{Processes: 3, Bytes: 100})
		})
	}
	all.Wait()
	if kept, err := t.s.Processes(t.Context(), "ann", "", 100); err != nil || len(kept) != 3 {
		t.Errorf("%d processes, %v", len(kept), err)
	}
}
