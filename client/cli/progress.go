package cli

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/eodispatch/eodispatch/client/wire"
)

// display returns a bar on a terminal, and plain lines elsewhere. With --json and --quiet there is none.
func (a *app) display(t target) display {
	switch {
	case a.json, a.quiet:
		return noDisplay{}
	case isTerminal(a.Err) && a.env("TERM") != "dumb":
		return newBar(a.Err, t)
	}
	return &lines{out: a.Err}
}

// lines shows each change in a line.
type lines struct {
	out  io.Writer
	last string
}

func (l *lines) show(w *watching) {
	if line := fmt.Sprintf("%s %s", w.target, w.state(time.Now())); line != l.last {
		l.last = line
		fmt.Fprintln(l.out, line)
	}
}

func (l *lines) note(line string) { fmt.Fprintln(l.out, line) }
func (l *lines) end()             {}

// bar is one bar with the state behind it. The drawing goroutine reads the state, so it is atomic.
type bar struct {
	all   *mpb.Progress
	one   *mpb.Bar
	state atomic.Pointer[string]
}

func newBar(out io.Writer, t target) *bar {
	b := &bar{all: mpb.New(mpb.WithOutput(out), mpb.WithRefreshRate(200*time.Millisecond))}
	b.state.Store(new(string))
	b.one = b.all.AddBar(1000, mpb.BarWidth(30), mpb.PrependDecorators(decor.Name(t.String()+" ")),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return " " + *b.state.Load() })))
	return b
}

func (b *bar) show(w *watching) {
	state := w.state(time.Now())
	b.state.Store(&state)
	switch {
	case w.status == wire.Finished:
		b.one.SetCurrent(1000)
	case w.progress != nil:
		b.one.SetCurrent(min(999, int64(*w.progress*10))) // a full bar means finished
	}
}

func (b *bar) note(line string) { fmt.Fprintln(b.all, line) }

func (b *bar) end() {
	b.one.Abort(false) // no effect on a completed bar
	b.all.Wait()
}
