package ogcapi

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/stac"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

const (
	maxLogFiles = 8
	maxLogLines = 10_000
)

// Logs returns the platform's message about the job, and the lines of the log files that the job links to; the standard
// has no log of its own. The lines get the time of the job's last change.
func (p *Platform) Logs(ctx context.Context, t dispatch.Token, ref dispatch.Ref) ([]dispatch.LogEntry, error) {
	ctx, end := p.answers.Begin(ctx)
	defer end()
	info, err := p.statusInfo(ctx, t, ref)
	if err != nil {
		return nil, err
	}
	entry := dispatch.LogEntry{Level: "info", Message: info.message()}
	for _, name := range []string{"created", "started", "updated", "finished"} {
		if at := info.time(name); at.After(entry.Time) {
			entry.Time = at
		}
	}
	var all []dispatch.LogEntry
	for lines, err := range p.logFiles(ctx, t, ref, info) {
		if err != nil && ctx.Err() != nil {
			return nil, err
		}
		for _, line := range lines {
			all = append(all, dispatch.LogEntry{Time: entry.Time, Level: "info", Message: line})
		}
	}
	if info.status() == dispatch.Failed {
		entry.Level = "error"
	}
	if entry.Message != "" {
		all = append(all, entry)
	}
	return all, nil
}

// logFiles reads the log files of a job, which servers list as related documents. It yields the lines of each.
func (p *Platform) logFiles(ctx context.Context, t dispatch.Token, ref dispatch.Ref,
	info statusInfo) iter.Seq2[[]string, error] {
	at, _ := url.Parse(p.job(ref)) // an endpoint's URL
	var files []string
	for _, l := range stac.Links(stac.Object(info)) {
		rel, href := stac.Text(l["rel"]), stac.Text(l["href"])
		names := strings.ToLower(cmp.Or(stac.Text(l["title"]), href))
		isLog := rel == "related" && strings.Contains(names, "log") || strings.HasSuffix(rel, "log") ||
			strings.HasSuffix(rel, "logs")
		if href != "" && isLog && len(files) < maxLogFiles {
			files = append(files, stac.Resolve(at, href))
		}
	}
	return func(yield func([]string, error) bool) {
		r := p.follower(t).Reader(ctx)
		defer r.Close()
		r.Expect(files)
		for _, href := range files {
			if a, err := r.Read(href); !yield(logLines(a, err)) {
				return
			}
		}
	}
}

// logLines returns the lines of a log file: of a text, or a list in JSON.
func logLines(a *upstream.Answer, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	d := documentOf(a)
	text := strings.SplitSeq(string(d.body), "\n")
	var list []string
	if raw, ok := d.json(); ok && json.Unmarshal(raw, &list) == nil {
		text = slices.Values(list)
	}
	var lines []string
	for line := range text {
		if line = upstream.Text(line); line != "" {
			lines = append(lines, line)
		}
		if len(lines) == maxLogLines {
			break
		}
	}
	return lines, nil
}
