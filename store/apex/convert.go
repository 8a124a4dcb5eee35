package apex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// statuses maps the names in the database to statuses.
var statuses = map[string]dispatch.Status{
	"CREATED": dispatch.Accepted, "QUEUED": dispatch.Queued, "RUNNING": dispatch.Running, "FINISHED": dispatch.Finished,
	"CANCELED": dispatch.Canceled, "FAILED": dispatch.Failed, "UNKNOWN": dispatch.Unknown,
}

var labels = map[string]dispatch.Label{"OPENEO": dispatch.OpenEO, "OGC_API_PROCESS": dispatch.OGCProcess}

// refused is an error that says why a record cannot be taken over.
func refused(format string, args ...any) error {
	return &dispatch.Error{Kind: dispatch.Invalid, Op: "apex", Text: fmt.Sprintf(format, args...)}
}

// foreign returns the job of a record. issuer is that of all its users.
func (r record) foreign(issuer string) (f dispatch.Foreign, err error) {
	status, ok := statuses[strings.ToUpper(r.status)]
	if !ok {
		return f, refused("The status %q is not known.", r.status)
	}
	request, err := r.request()
	if err != nil {
		return f, err
	}
	request.Parameters = bytes.TrimSpace(r.parameters)
	if len(request.Parameters) == 0 || string(request.Parameters) == "null" {
		request.Parameters = json.RawMessage("{}")
	}
	if _, err := members(request.Parameters); err != nil {
		return f, refused("The parameters are not a JSON object.")
	}
	return dispatch.Foreign{ID: dispatch.JobID(r.id), Owner: r.owner(issuer), Request: request, Status: status,
		PlatformJob: request.Service.WithoutNamespace(r.platformJob.String), Created: r.created.Time.UTC(),
		Updated: r.updatedAt()}, nil
}

// request returns the request of a record, without parameters.
func (r record) request() (q dispatch.Request, err error) {
	q.Title = r.title
	if q.Label = labels[strings.ToUpper(r.label)]; q.Label == "" {
		return q, refused("The label %q is not known.", r.label)
	}
	if err := json.Unmarshal(r.service, &q.Service); err != nil || q.Service.Endpoint == "" {
		return q, refused("The service is not JSON with an endpoint.")
	}
	switch {
	case r.id <= 0:
		return q, refused("The id is not positive.")
	case r.user == "":
		return q, refused("It belongs to no user.")
	case !r.created.Valid:
		return q, refused("It has no time of creation.")
	}
	return q, nil
}

func (r record) owner(issuer string) dispatch.UserID { return dispatch.UserID(issuer + " " + r.user) }

func members(object json.RawMessage) (m map[string]json.RawMessage, err error) {
	if err = json.Unmarshal(object, &m); err == nil && m == nil {
		err = fmt.Errorf("not an object")
	}
	return m, err
}

// task returns the task of a record and its jobs, as this broker keeps them: what the jobs share, and of each job the
// value of one parameter. It is an error if they differ in several parameters.
func (r record) task(issuer string, account dispatch.Account, jobs []dispatch.Draft) (*dispatch.Task, []dispatch.Draft,
	error) {
	request, err := r.request()
	if err != nil {
		return nil, nil, err
	}
	all := make([]map[string]json.RawMessage, len(jobs))
	for i, j := range jobs {
		var one dispatch.Request
		if err := json.Unmarshal(j.Body, &one); err != nil {
			return nil, nil, err
		}
		if all[i], err = members(one.Parameters); err != nil {
			return nil, nil, err
		}
	}
	dimension, err := difference(all)
	if err != nil {
		return nil, nil, err
	}
	shared := maps.Clone(all[0])
	delete(shared, dimension)
	if request.Parameters, err = dispatch.Encode(shared); err != nil {
		return nil, nil, err
	}
	t := &dispatch.Task{ID: dispatch.TaskID(r.id), Owner: r.owner(issuer), Account: account, Request: request,
		Dimension: dimension, Created: r.created.Time.UTC()}
	return t, numbered(jobs, all, t), nil
}

// difference returns the one parameter in which the jobs of a task differ.
func difference(all []map[string]json.RawMessage) (dimension string, err error) {
	names := map[string]bool{}
	for _, one := range all {
		for name := range one {
			names[name] = true
		}
	}
	var differ []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if slices.ContainsFunc(all, func(one map[string]json.RawMessage) bool {
			return !bytes.Equal(one[name], all[0][name])
		}) {
			differ = append(differ, name)
		}
	}
	switch {
	case len(names) == 0:
		return "", refused("Its jobs have no parameters.")
	case len(differ) > 1:
		return "", refused("Its jobs differ in several parameters: %s.", strings.Join(differ, ", "))
	case len(differ) == 0: // one job, or equal ones
		return slices.Sorted(maps.Keys(names))[0], nil
	}
	if slices.ContainsFunc(all, func(one map[string]json.RawMessage) bool { return one[differ[0]] == nil }) {
		return "", refused("Some of its jobs lack the parameter %s.", differ[0])
	}
	return differ[0], nil
}

// numbered returns the jobs of a task with their numbers, those of their titles if these count from 1, and their
// values.
func numbered(jobs []dispatch.Draft, parameters []map[string]json.RawMessage, t *dispatch.Task) []dispatch.Draft {
	numbers := make([]int, len(jobs))
	seen := map[int]bool{}
	for i, j := range jobs {
		numbers[i] = i + 1
		title := dispatch.ParseRequestHead(string(j.Body)).Title
		if n, err := strconv.Atoi(title[strings.LastIndexByte(title, ' ')+1:]); err == nil && n >= 1 && n <= len(jobs) {
			seen[n] = true
			numbers[i] = n
		}
	}
	for i := range jobs {
		jobs[i].Task, jobs[i].Number = t.ID, i+1
		if len(seen) == len(jobs) {
			jobs[i].Number = numbers[i]
		}
		jobs[i].Body = parameters[i][t.Dimension]
	}
	return jobs
}

// updatedAt returns when a record last changed.
func (r record) updatedAt() time.Time {
	if !r.updated.Valid || r.updated.Time.Before(r.created.Time) {
		return r.created.Time.UTC()
	}
	return r.updated.Time.UTC()
}
