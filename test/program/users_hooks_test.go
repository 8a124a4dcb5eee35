package program

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/eodispatch/eodispatch/client/cli"
)

// TestUsers_Hooks goes from a new hook to its deletion at the command line: its secret, a test that arrives, one that
// does not, the log, sending again.
func TestUsers_Hooks(t *testing.T) {
	t.Parallel()
	s := startDemo(t)
	token := SignIn(t, s.world, s.broker).Token
	var status atomic.Int32
	status.Store(http.StatusNoContent)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Webhook-Signature") == "" {
			t.Error("a message is not signed")
		}
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(receiver.Close)
	u := newPerson(t, "EODISPATCH_BROKER="+s.broker, "EODISPATCH_TOKEN="+token)
	u.refused(cli.ExitFailed, "only https is allowed", "hooks", "add", "gopher://example.org")
	u.refused(cli.ExitUsage, "--shares needs", "hooks", "add", receiver.URL, "--shares", "10")
	u.refused(cli.ExitFailed, "Input should be 'running'", "hooks", "add", receiver.URL, "--events", "sleeping")
	made := strings.Fields(u.must("hooks", "add", receiver.URL, "--events", "finished,task_share", "--shares", "10,50"))
	if len(made) != 4 || made[0] != "id" || made[2] != "secret" || !strings.HasPrefix(made[3], "whsec_") {
		t.Fatalf("%q", made)
	}
	id := made[1]
	u.holds(u.must("hooks", "list"), id, "active", "finished, task_share (10 50 %)", receiver.URL)
	u.holds(u.must("hooks", "list", "--json"), `"id":"`+id+`"`)
	if strings.Contains(u.must("hooks", "list", "--json"), made[3]) {
		t.Error("the list has the secret")
	}
	u.must("hooks", "test", id)
	u.holds(u.must("hooks", "log", id), "test", "delivered", "204")
	status.Store(http.StatusTeapot)
	u.refused(cli.ExitUnsuccessful, "(HTTP status 418)", "hooks", "test", id)
	u.holds(u.must("hooks", "list"), "failing")
	var last struct{ ID, State string }
	decodeInto(t, strings.SplitN(u.must("hooks", "log", id, "--json"), "\n", 2)[0], &last)
	if last.State != "waiting" {
		t.Errorf("%+v", last)
	}
	u.must("hooks", "resend", id, last.ID)
	u.refused(cli.ExitFailed, "no such hook", "hooks", "resend", id, "job-4711-1-finished")
	u.must("run", "ndvi", "--platform", "simulated-ogc", "--area", usersBox)
	u.must("hooks", "list", "job-1")
	u.must("hooks", "remove", id)
	u.refused(cli.ExitFailed, "no such hook", "hooks", "log", id)
}
