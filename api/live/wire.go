package live

import (
	"slices"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

func retriesOf(j dispatch.Job) *wire.JobRetries {
	if j.Retries == 0 {
		return nil
	}
	return &wire.JobRetries{Allowed: j.Retries, Done: j.Retried}
}

// CostUnit returns the unit of a job's costs; "" if there are none.
func CostUnit(j dispatch.Job) string {
	if j.AllCosts() == nil {
		return ""
	}
	return j.Unit
}

// usageOf returns what a job used; nil if nothing is known.
func usageOf(m dispatch.Metered) *wire.JobUsage {
	if m == (dispatch.Metered{}) {
		return nil
	}
	return &wire.JobUsage{CPU: (*wire.Amount)(m.CPU), Memory: (*wire.Amount)(m.Memory), Input: (*wire.Amount)(m.Input)}
}

func (a *Lists) TaskPlacements(t dispatch.TaskRecord) (placements []wire.TaskHome) {
	for _, h := range t.Request.Placements {
		one := wire.TaskHome{Platform: h.Account.Platform(), Service: wire.ServiceDetails(h.Service), Unused: h.Unused,
			Notice: h.Notice}
		if h.Notice != "" && a.SignInLink != nil {
			one.Link = a.SignInLink(h.Account)
		}
		placements = append(placements, one)
	}
	return placements
}

func (a *Lists) Job(r dispatch.Record) wire.ProcessingJob {
	return wire.ProcessingJob{ProcessingJobSummary: a.Summary(r), Options: wire.Object(r.Request.Options),
		Updated: r.Updated.UTC()}
}

// task returns a task without its jobs.
func (a *Lists) task(t dispatch.TaskRecord) wire.UpscalingTask {
	return wire.UpscalingTask{UpscalingTaskSummary: a.TaskSummary(t), Service: wire.ServiceDetails(t.Request.Service),
		Updated: t.Updated.UTC(),
		Jobs:    []wire.ProcessingJobSummary{}}
}

func (a *Lists) TaskSummary(t dispatch.TaskRecord) wire.UpscalingTaskSummary {
	return wire.UpscalingTaskSummary{ID: int64(t.ID), Title: t.Request.Title, Label: string(t.Request.Label),
		Status: a.Shown(t.Counts.Status()), Paused: t.Paused, Changing: changeOf(t.Change), Homes: a.TaskPlacements(t),
		Budget: budgetOf(t), Trial: t.Trial, Counts: a.Counts(t.Counts), Progress: &t.Progress,
		Created: t.Created.UTC(),
		Attention: a.Attention(dispatch.Job{Target: dispatch.Target{Account: t.Account},
			Condition: dispatch.Condition{Attention: t.Attention}}), Warning: t.Request.Warning,
		Annotations: wire.Annotations(t.Annotations), Forecast: forecastOf(t.Forecast), Rest: restOf(t.Rest)}
}

// changeOf returns a change as it is shown; nil if there is none.
func changeOf(c dispatch.Change) *wire.TaskChange {
	if c == (dispatch.Change{}) {
		return nil
	}
	action, _, _ := strings.Cut(c.Action, " ")
	return &wire.TaskChange{Action: action, Done: c.Done, Last: c.Last}
}

// forecastOf returns a forecast as it is shown; nil if there is none.
func forecastOf(f *dispatch.Forecast) *wire.Forecast {
	if f == nil {
		return nil
	}
	shown := &wire.Forecast{End: timeRange(f.End), Runs: f.Runs, Basis: string(f.Basis)}
	if f.Start != nil {
		start := timeRange(*f.Start)
		shown.Start = &start
	}
	return shown
}

func timeRange(r dispatch.TimeRange) wire.TimeRange {
	return wire.TimeRange{Early: r.Early.UTC(), Late: r.Late.UTC()}
}

// restOf returns what is left of a task as it is shown; nil if that is not known.
func restOf(r *dispatch.Rest) *wire.TaskRest {
	if r == nil {
		return nil
	}
	return &wire.TaskRest{Jobs: r.Jobs, Costs: (*wire.Spread)(r.Costs), CostUnit: r.Unit, CostRuns: r.Charged,
		Seconds: (*wire.Spread)(r.Took), SecondsRuns: r.Timed, Basis: string(r.Basis)}
}

// budgetOf returns the budget of a task; nil if it has none.
func budgetOf(t dispatch.TaskRecord) *wire.TaskBudget {
	if t.Spending == nil {
		return nil
	}
	use := t.Budget.Use(*t.Spending)
	return &wire.TaskBudget{Amount: use.Amount, Unit: use.Unit, Spent: use.Spent, Expected: use.Expected}
}

func (a *Lists) Summary(r dispatch.Record) wire.ProcessingJobSummary {
	return wire.ProcessingJobSummary{
		ID:                int64(r.ID),
		Title:             r.Request.Title,
		Name:              r.Name(),
		Label:             string(r.Request.Label),
		Status:            a.Shown(r.Status),
		Service:           wire.ServiceDetails(r.Request.Service),
		Parameters:        wire.Object(r.Request.Parameters),
		ParametersDeleted: r.Pruned,
		Attention:         a.Attention(r.Job),
		Warning:           r.Request.Warning,
		Failure:           r.Failure,
		Progress:          r.Progress,
		Created:           r.Created.UTC(),
		Started:           Known(r.Started),
		Ended:             Known(r.EndTime()),
		Checked:           Known(r.Checked),
		QueuePosition:     r.Ahead,
		TaskID:            int64(r.Task),
		Platform:          r.Account.Platform(),
		PlatformJobID:     r.Ref.ID,
		Format:            r.Request.Format,
		Costs:             r.AllCosts(),
		CostUnit:          CostUnit(r.Job),
		Usage:             usageOf(r.Metered),
		Retries:           retriesOf(r.Job),
		Duration:          r.Duration.Seconds(),
		Annotations:       wire.Annotations(r.Annotations),
		Forecast:          forecastOf(r.Forecast),
	}
}

func (a *Lists) Shown(s dispatch.Status) wire.Status {
	if s == dispatch.Submitted && a.Compat.SubmittedAsCreated {
		return wire.Created
	}
	return wire.Status(s)
}

func (a *Lists) Counts(jobs dispatch.Counts) map[wire.Status]int {
	shown := map[wire.Status]int{}
	for s, n := range jobs {
		shown[a.Shown(s)] += n
	}
	return shown
}

func Known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func (a *Lists) Attention(j dispatch.Job) *wire.JobAttention {
	if j.Attention == dispatch.None {
		return nil
	}
	shown := wire.JobAttention{Code: string(j.Attention), Message: openapi.Attentions[j.Attention]}
	switch {
	case j.Notice == "":
	case j.Attention == dispatch.ApplicationUnreachable:
		shown.Message += " " + j.Notice
	// it was submitted; or the platform was not asked
	case j.Attention == dispatch.SetAside, j.Notice == dispatch.RestoredNotice:
		shown.Message = j.Notice
	case j.Attention == dispatch.NoPlatform: // the notice says the same
	case j.Attention == dispatch.HeldByOperator:
		shown.Message += " The operator says: " + j.Notice
	default:
		shown.Message += " The platform says: " + j.Notice
	}
	if j.Attention == dispatch.NeedsSignIn && a.SignInLink != nil {
		if link := a.SignInLink(j.Account); link != "" {
			shown.Link, shown.Action = &link, "give_access"
			if slices.Contains(a.Linked, j.Account.Platform()) {
				shown.Action = "sign_in"
			}
		}
	}
	return &shown
}
