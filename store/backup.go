package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Backup writes a copy of an SQLite database, which a broker may be using, to a new file, and verifies the copy. It is
// the state of one moment. If anything fails there is no file. It returns the size of the file in bytes. A PostgreSQL
// database is Unsupported: its own tools do that.
func Backup(ctx context.Context, dsn, to string) (size int64, err error) {
	file, ok := strings.CutPrefix(dsn, "sqlite:")
	if !ok {
		return 0, &dispatch.Error{Kind: dispatch.Unsupported, Op: "store.Backup",
			Text: "Only SQLite files are copied by this command. Use pg_dump or pgBackRest for PostgreSQL, see " +
				"docs/operations.md."}
	}
	if err := mustExist(file); err != nil {
		return 0, err
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return 0, &dispatch.Error{Kind: dispatch.Conflict, Op: "store.Backup", Err: err,
			Text: fmt.Sprintf("%s exists already. Name a new file.", to)}
	}
	part, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".*.part") // readable for its owner only
	if err != nil {
		return 0, &dispatch.Error{Kind: dispatch.Unavailable, Op: "store.Backup", Err: err,
			Text: fmt.Sprintf("%s cannot be written.", to)}
	}
	defer func() {
		err = errors.Join(err, part.Close())
		for _, name := range []string{part.Name(), part.Name() + "-journal"} {
			if gone := os.Remove(name); !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
	}()
	if err := copySQLite(ctx, file, part.Name()); err != nil {
		return 0, notWritten(to, err)
	}
	return keepCopy(part, to)
}

// notWritten adds the name of the file to an error of writing it.
func notWritten(to string, err error) error {
	kind, text := meaning(err)
	switch text {
	case full:
		text = fmt.Sprintf("The disk is full: %s was not written.", to)
	case readOnly:
		text = fmt.Sprintf("%s cannot be written.", to)
	default:
		return fail("Backup", err)
	}
	return &dispatch.Error{Kind: kind, Op: "store.Backup", Text: text, Err: err}
}

// copySQLite copies a database to an empty file, and verifies the copy.
func copySQLite(ctx context.Context, file, to string) error {
	from, err := readerOf(file)
	if err != nil {
		return err
	}
	defer from.Close()
	schema, err := schemaOf(ctx, from)
	if err != nil {
		return err
	}
	if _, err := from.ExecContext(ctx, "VACUUM INTO ?", to); err != nil {
		return err
	}
	copied, err := openSQLiteFile(to, url.Values{"mode": {"ro"}}, 1)
	if err != nil {
		return err
	}
	defer copied.Close()
	var answer string
	if err := copied.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&answer); err != nil {
		return err
	}
	if version, err := schemaOf(ctx, copied); err != nil || answer != "ok" || version != schema {
		return errors.Join(&dispatch.Error{Kind: dispatch.Misconfigured, Op: "store.Backup", Err: errors.New(answer),
			Text: "The copy is damaged, and was deleted. Check the database and its disk."}, err)
	}
	return nil
}

// keepCopy gives a verified copy its name, once it is on the disk.
func keepCopy(part *os.File, to string) (size int64, err error) {
	if err := part.Sync(); err != nil {
		return 0, err
	}
	if err := os.Link(part.Name(), to); err != nil { // which replaces no file, and which not all file systems can
		if errors.Is(err, fs.ErrExist) {
			return 0, &dispatch.Error{Kind: dispatch.Conflict, Op: "store.Backup", Text: "There is a file " + to +
				" since the backup was begun. Choose another name."}
		}
		if err := os.Rename(part.Name(), to); err != nil {
			return 0, err
		}
	}
	info, err := os.Stat(to)
	if err != nil {
		return 0, err
	}
	return info.Size(), syncFolder(filepath.Dir(to))
}

// syncFolder puts the name of a new file on the disk.
func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	if runtime.GOOS != "windows" { // which refuses that
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
