package program

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/test/conformance"
	"github.com/eodispatch/eodispatch/test/mailbox"
)

// TestDoctor_AsksTheMailServer: it signs in and sends nothing; a wrong password, wrong encryption and a server that is
// not there are faults.
func TestDoctor_AsksTheMailServer(t *testing.T) {
	t.Parallel()
	server, w := mailbox.Start(t), startWorld(t)
	file := configuration(t, w)
	ask := func(want string, exit int, settings ...string) {
		t.Helper()
		code, printed := try(t, append([]string{"EODISPATCH_HOOKS_MAIL_SERVER=" + server.Address,
			"EODISPATCH_HOOKS_MAIL_FROM=noreply@broker.example.org"}, settings...), "doctor", "--config", file)
		if code != exit || !strings.Contains(printed, want) {
			t.Errorf("%v: exit %d, want %q in:\n%s", settings, code, want, printed)
		}
	}
	ask("ok      mail server "+server.Address, exitDone, "EODISPATCH_HOOKS_MAIL_ENCRYPTION=none")
	// its certificate is not trusted
	ask("FAIL    mail server "+server.Address, exitFailed, "EODISPATCH_HOOKS_MAIL_ENCRYPTION=starttls")
	ask("check `hooks.mail`", exitFailed, "EODISPATCH_HOOKS_MAIL_ENCRYPTION=none", "EODISPATCH_HOOKS_MAIL_SERVER="+
		strings.TrimPrefix(deadURL, "http://"))
	if mails := server.Mails(); len(mails) != 0 {
		t.Errorf("it sent %+v", mails)
	}
}

// TestDoctor_TellsOfHooks: of those whose messages have not arrived for long, and of those that are off.
func TestDoctor_TellsOfHooks(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	file := configuration(t, w)
	for name, create := range databases {
		t.Run(name, func(t *testing.T) {
			dsn := create(t)
			s, err := store.Open(t.Context(), dsn, conformance.WallClock{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				id := fmt.Sprintf("h%d", i)
				if err := s.AddHook(t.Context(), dispatch.Hook{ID: id, Owner: "ann", Kind: dispatch.Webhook,
					URL: "https://receiver.example.org/", Statuses: []dispatch.Status{dispatch.Finished}},
					20); err != nil {
					t.Fatal(err)
				}
				if err := s.TestHook(t.Context(), "ann", id); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			doctor := func() string {
				t.Helper()
				_, printed := try(t, []string{"EODISPATCH_DATABASE=" + dsn}, "doctor", "--config", file)
				return printed
			}
			if printed := doctor(); strings.Contains(printed, "hooks") {
				t.Errorf("of messages that have just been queued:\n%s", printed)
			}
			now, hour := time.Now().UnixMicro(), time.Hour.Microseconds()
			change(t, dsn, fmt.Sprintf("UPDATE deliveries SET queued = %d, due = %d WHERE hook <> 'h2'", now-3*hour,
				now-2*hour))
			change(t, dsn, fmt.Sprintf("UPDATE hooks SET failures = 9, hold = %d WHERE id = 'h0'", now+hour))
			change(t, dsn, "UPDATE hooks SET gone = true WHERE id = 'h2'")
			printed := doctor()
			for _, want := range []string{"messages to 1 hooks of users have not arrived for more than 1 h, the " +
				"oldest for 3 h", "messages to hooks have been due for 2 h, but no process sends them",
				"1 hooks of users are off, because their receivers answered 410"} {
				if !strings.Contains(printed, want) {
					t.Errorf("%q is not in:\n%s", want, printed)
				}
			}
		})
	}
}
