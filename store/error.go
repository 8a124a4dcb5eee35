package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	silent   = "The database does not respond."
	full     = "The database's disk is full."
	readOnly = "The database cannot be written."
	crowded  = "The database accepts no more connections."
	notText  = "A text is not valid UTF-8, or holds a NUL character."
)

// fail converts an error into a *dispatch.Error. An error that already is one stays as it is.
func fail(op string, err error) error {
	if err == nil {
		return nil
	}
	if _, ours := errors.AsType[*dispatch.Error](err); ours {
		return err
	}
	kind, text := meaning(err)
	return &dispatch.Error{Kind: kind, Op: "store." + op, Text: text, Err: err,
		Database: kind == dispatch.Unavailable || kind == dispatch.Misconfigured,
		Answered: text == full || text == readOnly}
}

// noSuch is fail for a missing row of another table than jobs; text names what is missing.
func noSuch(op, text string, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return &dispatch.Error{Kind: dispatch.NotFound, Op: "store." + op, Text: text, Err: err}
	}
	return fail(op, err)
}

func meaning(err error) (dispatch.Kind, string) {
	if errors.Is(err, sql.ErrNoRows) {
		return dispatch.NotFound, "There is no such job."
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return sqliteMeaning(e.Code())
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return postgresMeaning(e.Code)
	}
	if unanswered(err) {
		return dispatch.Unavailable, silent
	}
	return dispatch.Internal, ""
}

// stateReadOnly is the SQLSTATE of a server that cannot write: a standby, or a demoted primary.
const stateReadOnly = "25006"

// sqliteMeaning maps a result code, https://www.sqlite.org/rescode.html
func sqliteMeaning(code int) (dispatch.Kind, string) {
	switch code {
	case sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_TRUNCATE:
		return dispatch.Unavailable, readOnly
	}
	switch code & 0xff { // the primary result code
	case sqlite3.SQLITE_FULL:
		return dispatch.Unavailable, full
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN:
		return dispatch.Unavailable, readOnly
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_INTERRUPT:
		return dispatch.Unavailable, silent
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return dispatch.Misconfigured, "The file is not a database, or it is damaged."
	}
	return dispatch.Internal, ""
}

// postgresMeaning maps an SQLSTATE, https://www.postgresql.org/docs/current/errcodes-appendix.html
func postgresMeaning(state string) (dispatch.Kind, string) {
	switch {
	case state == "22021": // of what a client looks for; what is stored was checked
		return dispatch.Invalid, notText
	case state == "53100":
		return dispatch.Unavailable, full
	case state == stateReadOnly:
		return dispatch.Unavailable, readOnly
	case strings.HasPrefix(state, "28"), state == "3D000":
		return dispatch.Misconfigured, "The database refuses the connection: its name, the user or the password is " +
			"wrong."
	case state == "53300":
		return dispatch.Unavailable, crowded
	case state == "25P03", strings.HasPrefix(state, "08"), strings.HasPrefix(state, "53"),
		strings.HasPrefix(state, "57"), deadlock(state):
		return dispatch.Unavailable, silent
	}
	return dispatch.Internal, ""
}

func deadlock(state string) bool { return state == "40P01" || state == "40001" }

// retryable reports whether a failed transaction may succeed when it is run again. This includes a reference to a row
// that was deleted meanwhile.
func retryable(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (deadlock(e.Code) || e.Code == "23503")
}

// errDuplicateID says that an id is in use in another table.
var errDuplicateID = errors.New("the id is in use")

// isDuplicateID reports whether the error says that the id of a job, task or run is already in use.
func isDuplicateID(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "23505" && slices.Contains([]string{"jobs_pkey", "tasks_pkey", "unstarted_pkey",
			"sync_runs_pkey"}, e.ConstraintName)
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	return errors.Is(err, errDuplicateID) || ok && (e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY ||
		e.Code() == sqlite3.SQLITE_CONSTRAINT_ROWID) &&
		(strings.Contains(e.Error(), "jobs.id") || strings.Contains(e.Error(), "tasks.id") ||
			strings.Contains(e.Error(), "unstarted.job") || strings.Contains(e.Error(), "sync_runs.id"))
}

// isHeldRef reports whether the error says that another run has the identifier at its platform.
func isHeldRef(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "23505" && e.ConstraintName == "sync_runs_refs"
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE && strings.Contains(e.Error(), "sync_runs.ref_id")
}

// unanswered reports whether err means that no response arrived.
func unanswered(err error) bool {
	_, network := errors.AsType[net.Error](err)
	_, connect := errors.AsType[*pgconn.ConnectError](err)
	return network || connect || errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		strings.Contains(err.Error(), "conn closed") || strings.Contains(err.Error(), "unexpected EOF")
}

// committed judges the error of a commit. Without a response the transaction may have been committed.
func committed(err error) error {
	e, refused := errors.AsType[*pgconn.PgError](err)
	// also while waiting for a standby, when the commit is already done locally
	ended := refused && strings.HasPrefix(e.Code, "57")
	if err == nil || !ended && !unanswered(err) || errors.Is(err, context.Canceled) {
		return err
	}
	return &dispatch.Error{Kind: dispatch.Uncertain, Op: "store.Commit", Err: err, Database: true,
		Text: "The database did not confirm the change, which may have been saved."}
}

// invalidAddress returns the error for an address that cannot be parsed. It drops the parser's error, which may contain
// the password.
func invalidAddress(error) error {
	return &dispatch.Error{Kind: dispatch.Misconfigured, Op: "store.Open",
		Text: "The address of the database cannot be parsed. It has the form postgres://USER:PASSWORD@HOST:PORT/NAME."}
}
