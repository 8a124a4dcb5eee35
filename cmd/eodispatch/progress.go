package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/eodispatch/eodispatch/dispatch"
)

// progress shows the progress of jobs while the demonstration follows them.
type progress interface {
	show(dispatch.Request, job) // safe for concurrent use
	end()                       // completes the output; show is not called afterwards
}

// newProgress returns progress bars on a terminal, and otherwise one line for each change.
func newProgress(ctx context.Context, out io.Writer) progress {
	if isTerminal(out) {
		return newBars(ctx, mpb.WithOutput(out))
	}
	return &lines{out: out, last: map[int64]string{}}
}

// heading returns the label of a job or task.
func heading(r dispatch.Request, j job) string {
	kind := "job"
	if j.Counts != nil {
		kind = "task"
	}
	return fmt.Sprintf("%-16s %-20s %s %d ", r.Label, r.Title, kind, j.ID)
}

// counts is the number of jobs by status.
type counts map[string]int

// String lists the counts in the order in which a job passes through the statuses.
func (c counts) String() string {
	var all []string
	for _, s := range []dispatch.Status{dispatch.Accepted, dispatch.Submitted, dispatch.Queued, dispatch.Running,
		dispatch.Unknown,
		dispatch.Finished, dispatch.Failed, dispatch.Canceled} {
		if n := c[string(s)]; n > 0 {
			all = append(all, fmt.Sprintf("%d %s", n, s))
		}
	}
	return strings.Join(all, ", ")
}

// state returns the text shown for a job, without its progress.
func (j job) state() string {
	if j.Attention != nil {
		return j.Status + ": " + j.Attention.Message
	}
	if j.Counts != nil {
		return j.Status + ": " + j.Counts.String()
	}
	return j.Status
}

type lines struct {
	out  io.Writer
	mu   sync.Mutex
	last map[int64]string
}

func (l *lines) show(r dispatch.Request, j job) {
	line := heading(r, j) + " " + j.state()
	if j.Progress != nil && !j.ended() {
		line += fmt.Sprintf(" %.0f %%", *j.Progress)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last[j.ID] != line {
		l.last[j.ID] = line
		fmt.Fprintln(l.out, line)
	}
}

func (l *lines) end() {}

type bars struct {
	all *mpb.Progress
	mu  sync.Mutex
	of  map[int64]*bar
}

// bar is the bar of one job. The drawing goroutine reads its state, so the state is atomic.
type bar struct {
	*mpb.Bar
	state atomic.Value // string
}

func newBars(ctx context.Context, options ...mpb.ContainerOption) *bars {
	return &bars{all: mpb.NewWithContext(ctx, options...), of: map[int64]*bar{}}
}

func (b *bars) show(r dispatch.Request, j job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.of[j.ID]
	if one == nil {
		one = &bar{}
		one.state.Store(j.state())
		one.Bar = b.all.AddBar(100, mpb.BarWidth(30), mpb.PrependDecorators(decor.Name(heading(r, j))),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return one.state.Load().(string) })))
		b.of[j.ID] = one
	}
	one.state.Store(j.state())
	switch {
	case j.Status == string(dispatch.Finished):
		one.SetCurrent(100)
	case j.ended():
		one.Abort(false)
	case j.Progress != nil:
		one.SetCurrent(min(99, int64(*j.Progress))) // a full bar means finished
	}
}

// end ends the bars of jobs that are no longer followed, and waits until all are drawn.
func (b *bars) end() {
	b.mu.Lock()
	for _, one := range b.of {
		one.Abort(false) // no effect on a completed bar
	}
	b.mu.Unlock()
	b.all.Wait()
}
