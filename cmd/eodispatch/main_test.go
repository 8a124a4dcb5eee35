package main

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

func TestMain(m *testing.M) {
	code := postgres.Run(m)
	os.Exit(code)
}

// testConsole returns a console that is signaled to stop when ctx ends.
func testConsole(ctx context.Context, out io.Writer, environ ...string) console {
	return console{out, out, environ, func(context.Context) (context.Context, context.CancelFunc) {
		return context.WithCancel(ctx)
	}}
}
