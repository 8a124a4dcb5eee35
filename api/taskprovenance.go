package api

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/dispatch"
)

func (a *api) readTaskProvenance(ctx context.Context, in *openapi.Request, id dispatch.TaskID) (*geoJSON, error) {
	u := call.User(ctx)
	t, err := a.freshTask(ctx, id)
	if err != nil {
		return nil, err
	}
	return &geoJSON{"application/json", openapi.Revalidate, a.Body(func(ctx context.Context, w io.Writer) error {
		r := a.NewRenderer(ctx, w, live.Topic{User: u, Bare: true})
		defer r.Close()
		return (&taskProvenance{Renderer: r, api: a, task: t, name: taskName(t.ID)}).write()
	})}, nil
}

// taskProvenance writes the provenance of a task: of each job the times, the software and what it generated; the
// documents of the jobs say more. Of the jobs it keeps the ids and, if they are at several platforms, where each is,
// however many there are.
type taskProvenance struct {
	api *api
	*live.Renderer
	task          dispatch.TaskRecord
	name          string // of the task
	ids, finished []dispatch.JobID
	at            map[dispatch.JobID]dispatch.Account // of a task with several placements
}

func (p *taskProvenance) write() error {
	p.members("{", map[string]any{"prefix": p.api.provenancePrefix()})
	p.activities()
	placements := p.placements()
	p.entities(placements)
	p.agents(placements)
	p.associations(placements)
	p.relations("wasStartedBy", p.ids, func(job string) provenanceRecord {
		return provenanceRecord{"prov:activity": job, "prov:starter": p.name}
	})
	p.relations("wasGeneratedBy", p.finished, func(job string) provenanceRecord {
		return provenanceRecord{"prov:entity": job + "/results", "prov:activity": job}
	})
	p.relations("hadMember", p.finished, func(job string) provenanceRecord {
		return provenanceRecord{"prov:collection": p.name + "/results", "prov:entity": job + "/results"}
	})
	p.Text("}\n")
	return p.Err()
}

// provenancePlacement is a platform at which jobs of a task are, and the service there.
type provenancePlacement struct {
	account dispatch.Account
	request dispatch.Request
	suffix  string // of names in the document; "" if all jobs are at one platform
}

// placements returns the placements of the task at which jobs are, or where all its jobs are.
func (p *taskProvenance) placements() (all []provenancePlacement) {
	used := map[dispatch.Account]bool{}
	for _, a := range p.at {
		used[a] = true
	}
	for _, h := range p.task.Request.Placements {
		if used[h.Account] {
			all = append(all, provenancePlacement{h.Account, p.task.At(h.Account).Request, "-" + h.Account.Platform()})
		}
	}
	if len(all) == 0 {
		return []provenancePlacement{{p.task.Account, p.task.Request, ""}}
	}
	return all
}

func (p *taskProvenance) plan(h provenancePlacement) string { return p.name + "#service" + h.suffix }

// agents writes the platforms, and what the task used.
func (p *taskProvenance) agents(placements []provenancePlacement) {
	agents, used := map[string]any{}, map[string]provenanceRecord{}
	for _, h := range placements {
		platform, agent := platformAgent(h.account, h.request.Service)
		agents[platform] = agent
		used["_:service"+h.suffix] = provenanceRecord{"prov:activity": p.name, "prov:entity": p.plan(h)}
	}
	if p.hasParameters() {
		used["_:parameters"] = provenanceRecord{"prov:activity": p.name, "prov:entity": p.name + "#parameters"}
	}
	p.members(",", map[string]any{"agent": agents, "used": used})
}

// associations writes which platforms ran the task and, if there are several, each job.
func (p *taskProvenance) associations(placements []provenancePlacement) {
	p.Text(`,"wasAssociatedWith":{`)
	at := map[dispatch.Account]provenancePlacement{}
	for _, h := range placements {
		at[h.account] = h
		p.member("_:platform"+h.suffix, p.association(p.name, h))
	}
	if len(p.at) > 0 {
		for _, id := range p.ids {
			p.member(fmt.Sprintf("_:wasAssociatedWith-%d", id), p.association(jobName(id), at[p.at[id]]))
		}
	}
	p.Text("}")
}

func (p *taskProvenance) association(activity string, h provenancePlacement) provenanceRecord {
	platform, _ := platformAgent(h.account, h.request.Service)
	return provenanceRecord{"prov:activity": activity, "prov:agent": platform, "prov:plan": p.plan(h)}
}

// hasParameters reports whether the jobs share parameters that were not deleted because of their age.
func (p *taskProvenance) hasParameters() bool { return len(p.task.Request.Parameters) > 0 }

// activities writes the task and its jobs, and notes the ids of the jobs and where they are.
func (p *taskProvenance) activities() {
	t, tally := p.task, dispatch.Tally{}
	p.Text(`,"activity":{`)
	for j, err := range limits.InTurns(p.Ctx, &p.Turn,
		p.Broker.TaskJobs(p.Ctx, p.Turn.User, t.ID, dispatch.Page{Most: -1})) {
		if p.Failed(err) {
			return
		}
		tally.Add(j.Job)
		j.Request = t.RequestHeadFor(j.Job)
		activity := p.api.jobActivity(j)
		activity["schema:url"] = fmt.Sprintf("%s/unit_jobs/%d/provenance", p.PublicURL, j.ID)
		p.member(jobName(j.ID), activity)
		if len(t.Request.Placements) > 0 {
			if p.at == nil {
				p.at = map[dispatch.JobID]dispatch.Account{}
			}
			p.at[j.ID] = j.Account
		}
		if p.ids = append(p.ids, j.ID); j.Status == dispatch.Finished {
			p.finished = append(p.finished, j.ID)
		}
	}
	now := tally.CountsFor(t)
	entity := map[string]any{"prov:label": t.Request.Title, "prov:startTime": t.Created.UTC().Format(time.RFC3339Nano),
		"task:status": string(p.Shown(now.Counts.Status()))}
	if now.Counts.Status().Final() {
		entity["prov:endTime"] = now.Updated.UTC().Format(time.RFC3339Nano)
	}
	p.member(p.name, entity)
	p.Text("}")
}

// entities writes the services, the parameters that the jobs share, and the results.
func (p *taskProvenance) entities(placements []provenancePlacement) {
	r := p.task.Request
	p.Text(`,"entity":{`)
	for _, h := range placements {
		p.member(p.plan(h), p.api.servicePlan(dispatch.Record{Request: h.request}, nil))
	}
	if p.hasParameters() {
		p.member(p.name+"#parameters", parametersEntity(r.Parameters))
	}
	p.member(p.name+"/results", map[string]any{"prov:type": qualified("prov:Collection"), "prov:label": r.Title,
		"task:format": r.Format})
	for _, id := range p.finished {
		p.member(jobName(id)+"/results", map[string]any{})
	}
	p.Text("}")
}

// relations writes a section with one relation for each of the jobs; nothing for none.
func (p *taskProvenance) relations(kind string, jobs []dispatch.JobID, record func(job string) provenanceRecord) {
	if len(jobs) == 0 {
		return
	}
	p.Text(`,"` + kind + `":{`)
	for _, id := range jobs {
		p.member(fmt.Sprintf("_:%s-%d", kind, id), record(jobName(id)))
	}
	p.Text("}")
}

// member writes a member of the current object.
func (p *taskProvenance) member(name string, v any) {
	key, err := dispatch.Encode(name)
	p.Failed(err)
	value, err := dispatch.Encode(v)
	p.Failed(err)
	p.Separated(key, []byte(":"), value)
}

// members writes the members of an object after a text, and leaves the object open.
func (p *taskProvenance) members(before string, object map[string]any) {
	if text, err := dispatch.Encode(object); !p.Failed(err) {
		p.Text(before + string(text[1:len(text)-1]))
	}
}
