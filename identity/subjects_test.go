package identity

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// unreachable is a TokenStore that fails.
type unreachable struct {
	TokenStore
	err error
}

func (u unreachable) Put(context.Context, SharedToken) error         { return u.err }
func (u unreachable) Erase(context.Context, string, time.Time) error { return u.err }

// TestSubjects_LeaveAnOutageOfTheDatabaseToOthersToLog: each request of each user would be a line. Another failure is
// logged.
func TestSubjects_LeaveAnOutageOfTheDatabaseToOthersToLog(t *testing.T) {
	for err, lines := range map[error]int{
		&dispatch.Error{Kind: dispatch.Unavailable, Database: true}: 0,
		errors.New("the key is missing"):                            2,
	} {
		var log strings.Builder
		s := newSubjects(time.Now)
		s.log, s.shared = slog.New(slog.NewTextHandler(&log, nil)), unreachable{err: err}
		token := subject{"token", time.Now().Add(time.Hour)}
		s.store("ann", token)
		s.share(t.Context(), "ann", token)
		s.drop(t.Context(), "ann", "token")
		if n := strings.Count(log.String(), "\n"); n != lines {
			t.Errorf("%v: %d lines, want %d:\n%s", err, n, lines, &log)
		}
	}
}
