package postgres

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Template makes databases that start as copies of one.
type Template struct {
	Prepare func(t testing.TB, url string) // called once, with an empty database; it leaves no connection open
	once    sync.Once
	name    string
}

// templates are the names of those that were made, which Run drops.
var templates struct {
	sync.Mutex
	names []string
}

// Database creates a copy that ends with the test, and returns its URL. Without a server it does as [Database] does.
func (p *Template) Database(t testing.TB) string {
	t.Helper()
	server := running(t)
	p.once.Do(func() {
		name := newName()
		Exec(t, server, "CREATE DATABASE "+name)
		templates.Lock()
		templates.names = append(templates.names, name)
		templates.Unlock()
		p.Prepare(t, at(t, server, name))
		p.name = name
	})
	if p.name == "" {
		t.Fatal("the template could not be made, see the test that tried")
	}
	return create(t, server, " TEMPLATE "+p.name)
}

func newName() string { return "test_" + strings.ToLower(rand.Text()) }

// dropTemplates matters for a server that goes on after the tests.
func dropTemplates() {
	server, err := serverURL()
	if err != nil || len(templates.names) == 0 {
		return
	}
	ctx := context.Background()
	c, err := pgx.Connect(ctx, server)
	if err != nil {
		return
	}
	defer c.Close(ctx)
	for _, name := range templates.names {
		_, _ = c.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)") // at worst a database of tests stays
	}
}
