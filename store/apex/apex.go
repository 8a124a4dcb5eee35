// Package apex reads the database of the APEx Dispatch API, which this broker can replace: its jobs and tasks are taken
// over with their ids.
package apex

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Source is the database of the deployed service. It is only read.
type Source struct {
	db       *sql.DB
	postgres bool
}

// Open opens a database and checks that it is one of the deployed service. The address is a URL as SQLAlchemy takes it:
// mysql://, mariadb:// or postgresql://, with a driver's name or not. Of the query of a MySQL address only tls is read:
// true, skip-verify, preferred (the default) or false.
func Open(ctx context.Context, address dispatch.Secret) (*Source, error) {
	u, err := url.Parse(address.Reveal())
	if err != nil {
		return nil, misaddressed()
	}
	dialect, _, _ := strings.Cut(u.Scheme, "+")
	s := &Source{}
	switch dialect {
	case "mysql", "mariadb":
		s.db, err = openMySQL(u)
	case "postgres", "postgresql":
		u.Scheme, s.postgres = "postgres", true
		s.db, err = sql.Open("pgx", u.String())
	default:
		err = misaddressed()
	}
	if err != nil {
		return nil, err
	}
	if err := s.check(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func misaddressed() error { // without the parser's error, which may contain the password
	return &dispatch.Error{Kind: dispatch.Misconfigured, Op: "apex.Open",
		Text: "The address of the deployed service's database has the form mysql://USER:PASSWORD@HOST:PORT/NAME, or " +
			"postgresql://…"}
}

func openMySQL(u *url.URL) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.Net, c.Addr, c.DBName = "tcp", u.Host, strings.Trim(u.Path, "/")
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.ParseTime, c.Loc, c.Timeout = true, time.UTC, 30*time.Second
	c.Logger = &mysql.NopLogger{}
	if u.Port() == "" {
		c.Addr = u.Hostname() + ":3306"
	}
	switch mode := u.Query().Get("tls"); mode {
	case "", "preferred":
		c.TLSConfig = "preferred"
	case "true":
		c.TLS = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
	case "skip-verify", "false":
		c.TLSConfig = mode
	default:
		return nil, misaddressed()
	}
	connector, err := mysql.NewConnector(c)
	if err != nil || c.DBName == "" {
		return nil, misaddressed()
	}
	return sql.OpenDB(connector), nil
}

// Close closes the database.
func (s *Source) Close() error { return s.db.Close() }

// columns are those of the deployed service's tables that are read.
var columns = map[string][]string{
	"processing_jobs": {"id", "title", "label", "status", "user_id", "platform_job_id", "parameters", "service",
		"created", "updated", "upscaling_task_id"},
	"upscaling_tasks": {"id", "title", "label", "status", "user_id", "service", "created", "updated"},
}

// check returns Misconfigured if the database is something else.
func (s *Source) check(ctx context.Context) error {
	schema := "DATABASE()"
	if s.postgres {
		schema = "current_schema()"
	}
	rows, err := s.db.QueryContext(ctx,
		"SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = "+schema+
			" AND table_name IN ('processing_jobs', 'upscaling_tasks')")
	if err != nil {
		return unreadable(err)
	}
	defer rows.Close()
	present := map[string][]string{}
	for rows.Next() {
		var table, column string
		if err := rows.Scan(&table, &column); err != nil {
			return unreadable(err)
		}
		present[table] = append(present[table], column)
	}
	if err := rows.Err(); err != nil {
		return unreadable(err)
	}
	var missing []string
	for table, wanted := range columns {
		for _, column := range wanted {
			if !slices.Contains(present[table], column) {
				missing = append(missing, table+"."+column)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return &dispatch.Error{Kind: dispatch.Misconfigured, Op: "apex.Open",
		Text: "This is not the database of the APEx Dispatch API, or one of another version. It lacks: " +
			strings.Join(missing, ", ") + "."}
}

func unreadable(err error) error {
	return &dispatch.Error{Kind: dispatch.Unavailable, Op: "apex", Err: err,
		Text: "The database of the deployed service cannot be read."}
}

// record is a row of either table.
type record struct {
	id               int64
	title, label     string
	status, user     string
	platformJob      sql.NullString
	parameters       []byte
	service          []byte
	created, updated sql.NullTime
}

const (
	taskColumns = "id, title, label, status, user_id, service, created, updated"
	jobColumns  = taskColumns + ", platform_job_id, parameters"
)

// tasks returns tasks after an id, in the order of their ids.
func (s *Source) tasks(ctx context.Context, after int64, n int) ([]record, error) {
	return s.read(ctx, false, fmt.Sprintf("SELECT %s FROM upscaling_tasks WHERE id > %d ORDER BY id LIMIT %d",
		taskColumns, after, n))
}

// jobsOf returns all jobs of a task, in the order of their ids.
func (s *Source) jobsOf(ctx context.Context, task int64) ([]record, error) {
	return s.read(ctx, true, fmt.Sprintf("SELECT %s FROM processing_jobs WHERE upscaling_task_id = %d ORDER BY id",
		jobColumns, task))
}

// singles returns jobs that belong to no task after an id, in the order of their ids. A job whose task was deleted
// belongs to none.
func (s *Source) singles(ctx context.Context, after int64, n int) ([]record, error) {
	return s.read(ctx, true,
		fmt.Sprintf("SELECT %s FROM processing_jobs j WHERE j.id > %d AND NOT EXISTS (SELECT 1 FROM upscaling_tasks t "+
			"WHERE t.id = j.upscaling_task_id) ORDER BY j.id LIMIT %d", jobColumns, after, n))
}

func (s *Source) read(ctx context.Context, jobs bool, text string) (all []record, err error) {
	rows, err := s.db.QueryContext(ctx, text)
	if err != nil {
		return nil, unreadable(err)
	}
	defer rows.Close()
	var title, label, status, user sql.NullString // a record that lacks one is refused, and stops no other
	for rows.Next() {
		var r record
		into := []any{&r.id, &title, &label, &status, &user, &r.service, &r.created, &r.updated}
		if jobs {
			into = append(into, &r.platformJob, &r.parameters)
		}
		if err := rows.Scan(into...); err != nil {
			return nil, unreadable(err)
		}
		r.title, r.label, r.status, r.user = title.String, label.String, status.String, user.String
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		return nil, unreadable(err)
	}
	return all, nil
}
