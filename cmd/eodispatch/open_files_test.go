package main

import (
	"log/slog"
	"strings"
	"testing"
)

func TestWarnOfOpenFiles_ComparesWithAllConnections(t *testing.T) {
	for _, c := range []struct {
		limit, connections int
		warns              bool
	}{
		{limit: 1_048_576, connections: 10_000}, {limit: 11_000, connections: 10_000}, {limit: 0, connections: 10_000},
		{limit: 10_999, connections: 10_000, warns: true}, {limit: 1_024, connections: 100, warns: true},
	} {
		var said strings.Builder
		warnOfOpenFiles(c.limit, c.connections, slog.New(slog.NewTextHandler(&said, nil)))
		if warns := strings.Contains(said.String(), "limit of open files"); warns != c.warns {
			t.Errorf("%d files for %d connections: %q", c.limit, c.connections, said.String())
		}
	}
}
