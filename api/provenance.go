package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/live"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/dispatch"
)

// Provenance says how the results of a job, or of the jobs of a task, came about, in PROV-JSON
// (https://www.w3.org/submissions/prov-json/).
type Provenance struct {
	Prefix            map[string]string           `json:"prefix" doc:"Namespaces of the names in this document"`
	Entity            map[string]map[string]any   `json:"entity" doc:"The service, which is the plan, the parameters, and the results once the job has finished"`
	Activity          map[string]map[string]any   `json:"activity" doc:"The job, from its acceptance to its end, and its attempts before a retry. The task and its jobs"`
	Agent             map[string]map[string]any   `json:"agent" doc:"The platform"`
	Used              map[string]provenanceRecord `json:"used"`
	WasStartedBy      map[string]provenanceRecord `json:"wasStartedBy,omitempty" doc:"The task that started the job"`
	WasInformedBy     map[string]provenanceRecord `json:"wasInformedBy,omitempty" doc:"The attempts before a retry, which were replaced"`
	HadMember         map[string]provenanceRecord `json:"hadMember,omitempty" doc:"The results of the jobs, among those of their task"`
	WasGeneratedBy    map[string]provenanceRecord `json:"wasGeneratedBy,omitempty"`
	WasDerivedFrom    map[string]provenanceRecord `json:"wasDerivedFrom,omitempty"`
	WasAssociatedWith map[string]provenanceRecord `json:"wasAssociatedWith"`
}

// provenanceRecord relates members of a document by the roles that PROV defines.
type provenanceRecord map[string]string

// The namespaces of a document. Attributes of the job are members of its representation.
const (
	ofBroker = "broker:"
	ofJob    = "job:"
)

// provenancePrefix returns the namespaces of a document.
func (a *api) provenancePrefix() map[string]string {
	base := a.PublicURL
	if base == "" {
		base = "urn:eodispatch:broker"
	}
	return map[string]string{"broker": base + "/", "job": base +
		"/openapi.json#/components/schemas/ProcessingJob/properties/",
		"task": base + "/openapi.json#/components/schemas/UpscalingTask/properties/", "schema": "https://schema.org/"}
}

func jobName(id dispatch.JobID) string { return fmt.Sprintf("%sunit_jobs/%d", ofBroker, id) }

func taskName(id dispatch.TaskID) string { return fmt.Sprintf("%supscale_tasks/%d", ofBroker, id) }

// platformAgent returns a platform and its name in a document.
func platformAgent(a dispatch.Account, s dispatch.Service) (string, map[string]any) {
	return ofBroker + "platforms#" + a.Platform(), map[string]any{"prov:type": qualified("prov:SoftwareAgent"),
		"prov:label": a.Platform(), "schema:url": s.Endpoint}
}

// provenanceOf returns the provenance of a job, whose service is defined by the document d; nil: the platform keeps the
// service itself. It does not name the owner, because people publish it beside their results.
func (a *api) provenanceOf(r dispatch.Record, d *dispatch.Document) Provenance {
	job := jobName(r.ID)
	service := job + "#service"
	platform, agent := platformAgent(r.Account, r.Request.Service)
	p := Provenance{
		Prefix:   a.provenancePrefix(),
		Entity:   map[string]map[string]any{service: a.servicePlan(r, d)},
		Activity: map[string]map[string]any{job: a.jobActivity(r)},
		Agent:    map[string]map[string]any{platform: agent},
		Used:     map[string]provenanceRecord{"_:service": {"prov:activity": job, "prov:entity": service}},
		WasAssociatedWith: map[string]provenanceRecord{"_:platform": {"prov:activity": job, "prov:agent": platform,
			"prov:plan": service}},
	}
	p.addAttempts(r)
	if r.Task != 0 {
		task := taskName(r.Task)
		p.Activity[task] = map[string]any{"schema:url": fmt.Sprintf("%s/upscale_tasks/%d/provenance", a.PublicURL, r.Task)}
		p.WasStartedBy = map[string]provenanceRecord{"_:task": {"prov:activity": job, "prov:starter": task}}
	}
	parameters := job + "#parameters"
	if !r.Pruned {
		p.Entity[parameters] = parametersEntity(r.Request.Parameters)
		p.Used["_:parameters"] = provenanceRecord{"prov:activity": job, "prov:entity": parameters}
	}
	if r.Status == dispatch.Finished {
		results := job + "/results"
		p.Entity[results] = map[string]any{"prov:label": r.Request.Title, "job:format": r.Request.Format}
		p.WasGeneratedBy = map[string]provenanceRecord{"_:results": {"prov:entity": results, "prov:activity": job}}
		if !r.Pruned {
			p.WasDerivedFrom = map[string]provenanceRecord{"_:derived": {"prov:generatedEntity": results,
				"prov:usedEntity": parameters, "prov:activity": job}}
		}
	}
	return p
}

// addAttempts adds the platform jobs of attempts that a retry replaced, and of creates whose response came late. None
// of them made the results.
func (p *Provenance) addAttempts(r dispatch.Record) {
	for i, past := range r.Past {
		name := fmt.Sprintf("%s#attempt-%d", jobName(r.ID), i+1)
		p.Activity[name] = map[string]any{"prov:label": "a replaced attempt", "job:platform_job_id": past.ID}
		if p.WasInformedBy == nil {
			p.WasInformedBy = map[string]provenanceRecord{}
		}
		p.WasInformedBy[fmt.Sprintf("_:attempt-%d", i+1)] = provenanceRecord{"prov:informed": jobName(r.ID),
			"prov:informant": name}
	}
}

// qualified returns the value of an attribute that is a qualified name.
func qualified(name string) map[string]string {
	return map[string]string{"$": name, "type": "prov:QUALIFIED_NAME"}
}

// servicePlan describes a service, and what is known of the document that defined it.
func (a *api) servicePlan(r dispatch.Record, d *dispatch.Document) map[string]any {
	s := r.Request.Service
	plan := map[string]any{"prov:type": qualified("prov:Plan"), "job:label": string(r.Request.Label),
		"schema:identifier": s.Application}
	if s.Namespace != nil {
		plan["schema:isPartOf"] = *s.Namespace
	}
	if r.Versions.Process != "" {
		plan["schema:version"] = r.Versions.Process
	}
	a.describeDefinition(plan, r, d)
	return plan
}

// describeDefinition adds to a plan the hash of the definition that a job runs, as far as it is known, and when it was
// that. d is the definition at the acceptance, which is stored; nil: none is.
func (a *api) describeDefinition(plan map[string]any, r dispatch.Record, d *dispatch.Document) {
	accepted, hash := "", r.Versions.Definition
	if d != nil {
		accepted = d.Hash()
	}
	switch {
	case d != nil && (r.Request.PinnedToDocument() || r.Request.Service.Inline()):
		hash, plan["schema:description"] = accepted, "The definition that the job runs."
	case hash != "":
		plan["schema:description"] = "The definition as the broker knew it when it submitted the job. A platform " +
			"that reads definitions itself may have read a later one."
	case d != nil:
		hash, plan["schema:description"] = accepted,
			fmt.Sprintf("The definition at the acceptance of the job, %s. Whether it had changed before the platform "+
				"ran the job is not known.", r.Created.UTC().Format(time.RFC3339))
	default:
		return
	}
	plan["schema:sha256"] = hash
	if hash == accepted {
		plan["schema:contentUrl"] = fmt.Sprintf("%s/unit_jobs/%d/document", a.PublicURL, r.ID)
	}
}

// parametersEntity holds parameters byte for byte, and their hash.
func parametersEntity(parameters json.RawMessage) map[string]any {
	sum := sha256.Sum256(parameters)
	return map[string]any{"prov:value": string(parameters), "schema:encodingFormat": "application/json",
		"schema:sha256": hex.EncodeToString(sum[:])}
}

// jobActivity describes what a job did. What is not known is left out.
func (a *api) jobActivity(r dispatch.Record) map[string]any {
	activity := map[string]any{"prov:label": r.Request.Title, "job:status": string(a.Shown(r.Status)),
		"prov:startTime": r.Created.UTC().Format(time.RFC3339Nano)}
	if ended := r.EndTime(); !ended.IsZero() {
		activity["prov:endTime"] = ended.UTC().Format(time.RFC3339Nano)
	}
	for name, text := range map[string]string{"platform_job_id": r.Ref.ID, "failure": r.Failure,
		"cost_unit": live.CostUnit(r.Job), "options": string(r.Request.Options)} {
		if text != "" {
			activity[ofJob+name] = text
		}
	}
	if v := r.Versions.Version; v != "" {
		activity["schema:softwareVersion"] = v
	}
	if v := r.Versions.Platform(); v != "" {
		activity["schema:runtimePlatform"] = v
	}
	if costs := r.AllCosts(); costs != nil {
		activity["job:costs"] = *costs
	}
	if r.Duration > 0 {
		activity["job:duration"] = r.Duration.Seconds()
	}
	if r.Retried > 0 {
		activity["job:retries"] = r.Retried
	}
	return activity
}

func (a *api) readProvenance(ctx context.Context, in *openapi.Request,
	id dispatch.JobID) (*openapi.Status[Provenance], error) {
	r, err := a.Broker.Read(ctx, call.User(ctx), id, a.Freshness)
	if err != nil {
		return nil, err
	}
	d, err := a.Broker.Document(ctx, call.User(ctx), id)
	if err != nil {
		return nil, err
	}
	return openapi.StatusOf(a.provenanceOf(r, d)), nil
}
