package conformance

import (
	"encoding/json"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// warnings checks that a warning is read back, even if the rest of the request is too large to be read.
func (t storeTest) warnings() {
	ctx := t.Context()
	r := dispatch.Request{Title: "t", Label: dispatch.OpenEO, Service: dispatch.Service{Endpoint: "https://p.example",
		Application: "a"},
		Warning: "Not checked in full: \"é\".", Parameters: json.RawMessage(`{"x":"` + strings.Repeat("x", 4000) + `"}`),
		Format: "json"}
	job := draft(ann, shared)
	job.Body = must(json.Marshal(r))
	_, err := t.s.Accept(ctx, dispatch.Key{}, nil, []dispatch.Draft{job})
	t.must(err)
	task := &dispatch.Task{Owner: ann, Account: shared, Request: r, Dimension: "d"}
	drafts := []dispatch.Draft{draft(ann, shared)}
	drafts[0].Number, drafts[0].Body = 1, []byte("7")
	_, err = t.s.Accept(ctx, dispatch.Key{}, task, drafts)
	t.must(err)
	for _, most := range []int{0, 1000} {
		page := dispatch.Page{Most: most}
		jobs := must(t.s.Records(ctx, ann, page))
		tasks := must(t.s.Tasks(ctx, ann, page))
		inTask := must(t.s.TaskJobs(ctx, ann, task.ID, page))
		t.equal([]string{jobs[0].Request.Warning, tasks[0].Request.Warning, inTask[0].Request.Warning},
			[]string{r.Warning, r.Warning, r.Warning})
	}
	record := must(t.s.Record(ctx, ann, must(t.s.TaskJobs(ctx, ann, task.ID, dispatch.Page{}))[0].ID))
	t.equal(record.Request.Warning, r.Warning)
}
