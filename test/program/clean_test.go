package program

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/observe/operator"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
)

const hostile = "job\x1b[2J\u009b1m\u202e"

// troubled is a database with a job whose texts control a terminal.
type troubled struct{ operator.Operations }

func (troubled) Troubled(context.Context, bool, int) ([]dispatch.Job, error) {
	return []dispatch.Job{{Identity: dispatch.Identity{ID: 1},
		Handover: dispatch.Handover{Ref: dispatch.Ref{ID: hostile}}, Condition: dispatch.Condition{Notice: "é"}}}, nil
}

// TestOperators_AreNotSteered: what platforms and users wrote reaches an operator's terminal as text alone.
func TestOperators_AreNotSteered(t *testing.T) {
	t.Parallel()
	w, database := startWorld(t), "sqlite:"+filepath.Join(t.TempDir(), "d.db")
	listener := httptest.NewUnstartedServer(nil)
	defer listener.Close()
	environ := append(acting(t, w, "127.0.0.1:0", database, named("k")), "EODISPATCH_TELEMETRY_LISTEN="+
		listener.Listener.Addr().String())
	if code, said := try(t, environ, "migrate"); code != exitDone {
		t.Fatal(said)
	}
	key, err := store.ReadOperatorKey(t.Context(), database, conformance.WallClock{})
	if err != nil {
		t.Fatal(err)
	}
	listener.Config.Handler = operator.Handler(operator.Config{Store: troubled{}, Key: key,
		Log: slog.New(slog.DiscardHandler)})
	listener.Start()
	said := operators(t, environ, "jobs")
	if !strings.Contains(said, "job [2J 1m") || strings.ContainsAny(said, "\x1b\u009b\u202e") {
		t.Errorf("%q", said)
	}
}
