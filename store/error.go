package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	silent   = "The database does not answer."
	full     = "The database's disk is full."
	readOnly = "The database cannot be written."
)

// fail makes an error ours. What is ours already stays as it is.
func fail(op string, err error) error {
	if err == nil {
		return nil
	}
	if _, ours := errors.AsType[*dispatch.Error](err); ours {
		return err
	}
	kind, text := meaning(err)
	return &dispatch.Error{Kind: kind, Op: "store." + op, Text: text, Err: err, Database: kind == dispatch.Unavailable || kind == dispatch.Misconfigured,
		Answered: text == full || text == readOnly}
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

// stateReadOnly is the SQLSTATE of a server that may not write: a standby, or a primary that was demoted.
const stateReadOnly = "25006"

// sqliteMeaning of a result code, https://www.sqlite.org/rescode.html
func sqliteMeaning(code int) (dispatch.Kind, string) {
	switch code {
	case sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_TRUNCATE:
		return dispatch.Unavailable, readOnly
	}
	switch code & 0xff { // without the extension
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

// postgresMeaning of an SQLSTATE, https://www.postgresql.org/docs/current/errcodes-appendix.html
func postgresMeaning(state string) (dispatch.Kind, string) {
	switch {
	case state == "53100":
		return dispatch.Unavailable, full
	case state == stateReadOnly:
		return dispatch.Unavailable, readOnly
	case strings.HasPrefix(state, "28"), state == "3D000":
		return dispatch.Misconfigured, "The database refuses us: its name, the user or the password is wrong."
	case state == "25P03", strings.HasPrefix(state, "08"), strings.HasPrefix(state, "53"), strings.HasPrefix(state, "57"), deadlock(state):
		return dispatch.Unavailable, silent
	}
	return dispatch.Internal, ""
}

func deadlock(state string) bool { return state == "40P01" || state == "40001" }

// retryable reports whether the database gave a transaction up that may succeed when it is tried again; also for a
// reference to what another deleted meanwhile.
func retryable(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (deadlock(e.Code) || e.Code == "23503")
}

// taken reports whether an id is in use: of a job or of a task.
func taken(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "23505" && (e.ConstraintName == "jobs_pkey" || e.ConstraintName == "tasks_pkey")
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY || e.Code() == sqlite3.SQLITE_CONSTRAINT_ROWID) &&
		(strings.Contains(e.Error(), "jobs.id") || strings.Contains(e.Error(), "tasks.id"))
}

// unanswered reports whether err tells of no answer, and not of a bad one.
func unanswered(err error) bool {
	_, network := errors.AsType[net.Error](err)
	_, connect := errors.AsType[*pgconn.ConnectError](err)
	return network || connect || errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "conn closed") ||
		strings.Contains(err.Error(), "unexpected EOF")
}

// committed judges the answer to a commit: where there is none, it may have been done.
func committed(err error) error {
	e, refused := errors.AsType[*pgconn.PgError](err)
	ended := refused && strings.HasPrefix(e.Code, "57") // also while it waits for a standby, when it has committed already
	if err == nil || !ended && !unanswered(err) || errors.Is(err, context.Canceled) {
		return err
	}
	return &dispatch.Error{Kind: dispatch.Uncertain, Op: "store.Commit", Err: err, Database: true,
		Text: "The database did not answer; it may have been kept."}
}

// misspelt is for an address that cannot be read. What was read wrongly may hold the password, so it is not repeated.
func misspelt(error) error {
	return &dispatch.Error{Kind: dispatch.Misconfigured, Op: "store.Open",
		Text: "The database's address cannot be read; it is written postgres://USER:PASSWORD@HOST:PORT/NAME."}
}
