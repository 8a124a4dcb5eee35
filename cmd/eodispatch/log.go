package main

import (
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/mattn/go-isatty"
)

// newLog writes to w from a level, which may change. The format auto is text on a terminal and JSON elsewhere.
// Durations are written as text with units, such as 1.5s.
func newLog(level slog.Leveler, format string, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: durationAsText}
	if format == "text" || format == "auto" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// durationAsText replaces a duration, which JSON would show as a number of nanoseconds, by text, to the microsecond
// below a second and to the millisecond above.
func durationAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() != slog.KindDuration {
		return a
	}
	d, digits := a.Value.Duration(), time.Microsecond
	if d.Abs() >= time.Second {
		digits = time.Millisecond
	}
	return slog.String(a.Key, d.Round(digits).String())
}

// isTerminal reports whether what is written to w is shown on a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
