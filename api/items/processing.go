package items

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/api/facade/files"
	"github.com/eodispatch/eodispatch/broker"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/stac"
)

// processingOf returns what is known of how a finished job came to its results. The time is when the platform was seen
// to have finished.
func processingOf(r dispatch.Record) stac.Processing {
	p := stac.Processing{Facility: r.Account.Platform(), URL: r.Request.Service.Endpoint, Lineage: lineageOf(r),
		Time: r.Moved}
	if !stac.IsAddress(p.URL) {
		p.URL = ""
	}
	software := map[string]string{}
	if v := r.Versions; v.Version != "" {
		software[cmp.Or(v.Software, r.Account.Platform())] = v.Version
	}
	if v := r.Versions; v.Process != "" {
		software[r.Request.Service.Application] = v.Process
	}
	if len(software) > 0 {
		p.Software = software
	}
	return p
}

// TaskProcessors returns the platforms of a task as providers of its results. Of one with several placements they are
// those at which jobs have finished.
func TaskProcessors(t dispatch.TaskRecord, finishedAt map[dispatch.Account]bool) (all []map[string]any) {
	add := func(a dispatch.Account, s dispatch.Service, jobs string) {
		provider := map[string]any{"name": a.Platform(), "roles": []string{"processor"}}
		stac.Processing{Facility: a.Platform(), Lineage: fmt.Sprintf("Task %d ran %s on %s%s %s.", t.ID, processName(s),
			a.Platform(), jobs, t.Dimension)}.AddTo(provider)
		all = append(all, provider)
	}
	for _, h := range t.Request.Placements {
		if finishedAt[h.Account] {
			add(h.Account, h.Service, " for some of the values of")
		}
	}
	if len(all) == 0 {
		add(t.Account, t.Request.Service, ", a job for each value of")
	}
	return all
}

// lineageOf names the process, the platform and the job.
func lineageOf(r dispatch.Record) string {
	text := fmt.Sprintf("Job %d ran %s on %s", r.ID, processName(r.Request.Service), r.Account.Platform())
	if r.Ref.ID != "" {
		text += ", there job " + r.Ref.ID
	}
	if v := r.Versions.Platform(); v != "" {
		text += ", with " + v
	}
	return text + "."
}

// processName names a process in a sentence.
func processName(s dispatch.Service) string {
	switch {
	case s.Inline():
		return "a process graph of the request"
	case s.Namespace != nil && *s.Namespace != "":
		return "the process " + s.Application + " of " + *s.Namespace
	}
	return "the process " + s.Application
}

// ProvenanceLinks returns links of results to the job and its provenance, below a base URL.
func ProvenanceLinks(base string, id dispatch.JobID) []wire.Link {
	job := fmt.Sprintf("%s/unit_jobs/%d", strings.TrimSuffix(base, "/"), id)
	return []wire.Link{{Rel: stac.RelExecution, Href: job, Type: "application/json", Title: "The job"},
		{Rel: stac.RelProvenance, Href: job + "/provenance",
			Type: "application/json", Title: "How the results came about, as PROV-JSON"}}
}

// WithProcessing returns the Collection of a finished job with how it was processed, and with links to the files that
// are passed on; as it is if it is no JSON object.
func WithProcessing(p broker.JobResult, base string, passed *files.Facade) json.RawMessage {
	c := object(p.Collection)
	if c == nil {
		return p.Collection
	}
	if passed.Pass(c, base, p.Owner, p.Account, p.ID, time.Now().Add(files.Life)) != nil {
		return p.Collection
	}
	stac.Process(c, processingOf(p.Record))
	for _, l := range ProvenanceLinks(base, p.ID) {
		stac.AddLinks(c, map[string]string{"rel": l.Rel, "href": l.Href, "type": l.Type, "title": l.Title})
	}
	text, err := dispatch.Encode(c)
	if err != nil {
		return p.Collection
	}
	return text
}
