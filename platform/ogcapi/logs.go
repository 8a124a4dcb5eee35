package ogcapi

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/stac"
	"github.com/eodispatch/eodispatch/upstream"
)

const (
	maxLogFiles = 8
	maxLogLines = 10_000
)

// Logs returns the platform's message about the job, and the lines of the log files that the job links to; the standard has no
// log of its own. The lines get the time of the job's last change.
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
	for _, href := range logFiles(info) {
		lines, err := p.logLines(ctx, t, p.job(ref), href)
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

// logFiles returns the URLs of a job's log files, which servers list as related documents.
func logFiles(info statusInfo) []string {
	var all []string
	for _, l := range stac.Links(stac.Object(info)) {
		rel, href := text(l["rel"]), text(l["href"])
		names := strings.ToLower(cmp.Or(text(l["title"]), href))
		if href != "" && (rel == "related" && strings.Contains(names, "log") || strings.HasSuffix(rel, "log") || strings.HasSuffix(rel, "logs")) {
			all = append(all, href)
		}
	}
	return all[:min(len(all), maxLogFiles)]
}

func (p *Platform) logLines(ctx context.Context, t dispatch.Token, job, href string) ([]string, error) {
	at, err := url.Parse(job)
	if err != nil {
		return nil, err
	}
	d, err := p.follower(ctx, t)(stac.Resolve(at, href))
	if err != nil {
		return nil, err
	}
	said := strings.SplitSeq(string(d.body), "\n")
	var list []string
	if raw, ok := d.json(); ok && json.Unmarshal(raw, &list) == nil {
		said = slices.Values(list)
	}
	var lines []string
	for line := range said {
		if line = upstream.Text(line); line != "" {
			lines = append(lines, line)
		}
		if len(lines) == maxLogLines {
			break
		}
	}
	return lines, nil
}
