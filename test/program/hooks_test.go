//go:build unix

package program

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/conformance/postgres"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/mailbox"
)

// TestHooks_SentAfterAKill: the program is killed while a receiver has the message about the end of a job, and has not
// answered. The next process sends it again, under the same id.
func TestHooks_SentAfterAKill(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "d.db") },
		"PostgreSQL": func(t *testing.T) string { return postgres.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // both wait for the lease of the killed process to end
			sentAfterAKill(t, database(t))
		})
	}
}

func sentAfterAKill(t *testing.T, database string) {
	r, w := newHookReceiver(t), startWorld(t)
	environ := acting(t, w, executable.FreeAddress(t), database, named("k"))
	p := Start(t, environ...)
	c := SignIn(t, w, p.Address)
	var hook struct{ ID, Secret string }
	if err := c.Call(t.Context(), http.MethodPost, "/hooks", []byte(`{"url": "`+r.URL+`", "events": ["finished"]}`),
		&hook); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(hook.Secret, "whsec_") {
		t.Errorf("secret %q", hook.Secret)
	}
	j, err := c.Submit(t.Context(), OGC(w))
	if err != nil {
		t.Fatal(err)
	}
	first := r.await(t)
	p.Send(t, syscall.SIGKILL)
	p.AwaitEnd(t, time.Minute)
	close(r.hold)
	p = Start(t, environ...)
	if second := r.await(t); second.ID != first.ID || second.Data.Job != j.ID ||
		second.Type != "org.eodispatch.job.finished.v1" {
		t.Errorf("%+v, then %+v", first, second)
	}
	c = SignIn(t, w, p.Address)
	if err := c.Call(t.Context(), http.MethodPost, "/hooks/"+hook.ID+"/test", nil, new(any)); err != nil {
		t.Fatal(err)
	}
	if test := r.await(t); test.Type != "org.eodispatch.test.v1" {
		t.Errorf("%+v", test)
	}
	r.awaitLog(t, c, hook.ID, []string{"finished delivered", "test delivered"})
}

// TestHooks_ByMail: the program mails a user, at the address in their token alone, that a job of theirs has ended, and
// what one request asks for.
func TestHooks_ByMail(t *testing.T) {
	t.Parallel()
	server, w := mailbox.Start(t), startWorld(t)
	p := Start(t, append(acting(t, w, executable.FreeAddress(t), "sqlite:"+filepath.Join(t.TempDir(), "d.db"),
		named("k")), "EODISPATCH_HOOKS_MAIL_SERVER="+server.Address,
		"EODISPATCH_HOOKS_MAIL_FROM=EO jobs <noreply@broker.example.org>", "EODISPATCH_HOOKS_MAIL_ENCRYPTION=none")...)
	c := SignIn(t, w, p.Address)
	for _, foreign := range []string{"eve@example.org", "alice@example.org,eve@example.org",
		"alice@example.org?bcc=eve@example.org"} {
		err := c.Call(t.Context(), http.MethodPost, "/hooks", []byte(`{"url": "mailto:`+foreign+`"}`), new(any))
		if err == nil || !strings.Contains(err.Error(), "address of your account") {
			t.Errorf("%s: %v", foreign, err)
		}
	}
	var hook struct {
		ID, Kind, Secret string
		Events           []string
	}
	if err := c.Call(t.Context(), http.MethodPost, "/hooks", []byte(`{"url": "MailTo:alice@example.org"}`),
		&hook); err != nil {
		t.Fatal(err)
	}
	if hook.Kind != "mail" || hook.Secret != "" ||
		strings.Join(hook.Events, " ") != "attention finished failed canceled task_ended" {
		t.Errorf("%+v", hook)
	}
	j, err := c.Submit(t.Context(), OGC(w))
	if err != nil {
		t.Fatal(err)
	}
	m := server.Await(t, 1)[0]
	if m.Header.Get("Subject") != fmt.Sprintf("Job %d has finished", j.ID) || m.To[0] != "alice@example.org" ||
		m.From != "noreply@broker.example.org" || !strings.Contains(m.Text, "/#/jobs/1") {
		t.Errorf("%+v", m)
	}
	asked := OGC(w)
	asked.Options = json.RawMessage(`{"notify": {"url": "mailto:alice@example.org"}}`)
	if _, err := c.Submit(t.Context(), asked); err != nil {
		t.Fatal(err)
	}
	if m := server.Await(t, 2)[1]; m.Header.Get("Subject") != "Job 2 has finished" {
		t.Errorf("%+v", m)
	}
}

// hookEvent is an event as receivers read it.
type hookEvent struct {
	ID, Type string
	Data     struct {
		Job int64 `json:"job_id"`
	}
}

// hookReceiver keeps what it receives. Until hold is closed it does not answer.
type hookReceiver struct {
	*httptest.Server
	hold chan struct{}
	got  chan hookEvent
}

func newHookReceiver(t *testing.T) *hookReceiver {
	r := &hookReceiver{hold: make(chan struct{}), got: make(chan hookEvent, 100)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		var e hookEvent
		if text, err := io.ReadAll(q.Body); err != nil || json.Unmarshal(text, &e) != nil ||
			q.Header.Get("Webhook-Signature") == "" {
			t.Errorf("%s %v", text, q.Header)
		}
		r.got <- e
		select {
		case <-r.hold:
		case <-q.Context().Done():
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *hookReceiver) await(t *testing.T) hookEvent {
	t.Helper()
	select {
	case e := <-r.got:
		return e
	case <-time.After(5 * time.Minute):
		t.Fatal("no message arrived")
		return hookEvent{}
	}
}

// awaitLog waits until the log of a hook shows these deliveries.
func (r *hookReceiver) awaitLog(t *testing.T, c Client, hook string, want []string) {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(2 * time.Minute); ; <-again.C {
		var all []struct{ Event, State string }
		if err := c.Call(t.Context(), http.MethodGet, "/hooks/"+hook+"/deliveries", nil, &all); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range all {
			got = append(got, d.Event+" "+d.State)
		}
		if slices.Sort(got); slices.Equal(got, want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the log shows %q", got)
		}
	}
}
