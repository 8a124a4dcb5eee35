// Package echo is a platform without a server: its one process returns its input after a pause. Suites that test
// servers of OGC API - Processes need such a process.
package echo

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/parameters"
)

const (
	// Name is the name of the platform.
	Name = "echo"
	// Endpoint identifies the platform. Nothing is sent to it: no host can have this name (RFC 2606).
	Endpoint = "https://echo.invalid"
	// Process is the id of its process.
	Process = "echo"
)

// mostPause is how long the process may be asked to take.
const mostPause = time.Hour

// Platform implements [dispatch.Platform]. It holds no state: when a job ends is a part of the job's identifier.
type Platform struct {
	clock dispatch.Clock
	all   []dispatch.Parameter
	set   *parameters.Set
}

var (
	_ dispatch.Describer = (*Platform)(nil)
	_ dispatch.Checker   = (*Platform)(nil)
	_ dispatch.Canceler  = (*Platform)(nil)
	_ dispatch.Prober    = (*Platform)(nil)
)

// New returns the platform.
func New(clock dispatch.Clock) *Platform {
	reader := parameters.NewReader(context.Background())
	all := []dispatch.Parameter{
		reader.Describe(dispatch.Parameter{Name: "message", Description: "What the process returns.",
			Schema: json.RawMessage(`{"type":"string"}`)}),
		reader.Describe(dispatch.Parameter{Name: "pause", Description: "How many seconds it takes.", Optional: true,
			Default: json.RawMessage("0"),
			Schema: fmt.Appendf(nil, `{"type":"integer","minimum":0,"maximum":%.0f,"default":0}`,
				mostPause.Seconds())}),
	}
	return &Platform{clock: clock, all: all, set: reader.NewSet(all)}
}

// Backend returns the platform as a back-end of the broker.
func Backend(clock dispatch.Clock) *dispatch.Backend {
	return &dispatch.Backend{Name: Name, Label: dispatch.OGCProcess, Endpoint: Endpoint, Access: dispatch.AccessOpen,
		Platform: New(clock),
		Limits:   dispatch.Limits{Jobs: 1_000, Requests: 8, Send: 30 * time.Second, MinPoll: time.Second}}
}

// Service returns the service that is the process.
func Service() dispatch.Service {
	return dispatch.Service{Endpoint: Endpoint, Application: Process}
}

// TwoStep implements [dispatch.Platform].
func (*Platform) TwoStep() bool { return false }

// Base implements [dispatch.Platform].
func (*Platform) Base(s dispatch.Service) (string, error) {
	if s.Application != Process || s.Namespace != nil && *s.Namespace != "" {
		return "", dispatch.InvalidBody("echo.Base", "The only process of this platform is "+Process+".", "service",
			"application")
	}
	return "", nil
}

// Parameters implements [dispatch.Describer].
func (p *Platform) Parameters(context.Context, dispatch.Token, dispatch.Service) ([]dispatch.Parameter, error) {
	return p.all, nil
}

// Check implements [dispatch.Checker].
func (p *Platform) Check(ctx context.Context, _ dispatch.Token, r dispatch.Request,
	d *dispatch.Dimension) (warning string, err error) {
	return "", p.set.Check(ctx, r, d)
}

// Submit implements [dispatch.Platform]. Without a pause the job has finished with that.
func (p *Platform) Submit(_ context.Context, _ dispatch.Token, s dispatch.Submission) (dispatch.SubmitResult, error) {
	var in struct{ Pause float64 }
	if err := json.Unmarshal(s.Parameters, &in); err != nil {
		return dispatch.SubmitResult{}, &dispatch.Error{Kind: dispatch.Invalid, Op: "echo.Submit",
			Text: "The pause must be a number.", Err: err}
	}
	pause := min(max(time.Duration(in.Pause*float64(time.Second)), 0), mostPause)
	result := dispatch.SubmitResult{Started: true, Ref: dispatch.Ref{ID: fmt.Sprintf("%d-%s",
		p.clock.Now().Add(pause).UnixMilli(), s.Tag)}}
	if pause == 0 {
		result.Result = collection
	}
	return result, nil
}

// Status implements [dispatch.Platform].
func (p *Platform) Status(_ context.Context, _ dispatch.Token, r dispatch.Ref) (dispatch.Report, error) {
	end, _, _ := strings.Cut(r.ID, "-")
	millis, err := strconv.ParseInt(end, 10, 64)
	switch {
	case err != nil:
		return dispatch.Report{}, &dispatch.Error{Kind: dispatch.NotFound, Op: "echo.Status", Err: err}
	case p.clock.Now().UnixMilli() < millis:
		return dispatch.Report{Status: dispatch.Running}, nil
	}
	return dispatch.Report{Status: dispatch.Finished}, nil
}

// Results implements [dispatch.Platform]. The output itself is the job's parameter, which its façade returns.
func (p *Platform) Results(ctx context.Context, t dispatch.Token, r dispatch.Ref) (json.RawMessage, error) {
	report, err := p.Status(ctx, t, r)
	if err == nil && report.Status != dispatch.Finished {
		err = &dispatch.Error{Kind: dispatch.Conflict, Op: "echo.Results", Text: "The job has not finished."}
	}
	return collection, err
}

var collection = json.RawMessage(
	`{"type":"Collection","stac_version":"1.0.0","id":"echo","description":"An echo has no files.","license":"proprietary",` +
		`"extent":{"spatial":{"bbox":[[-180,-90,180,90]]},"temporal":{"interval":[[null,null]]}},"links":[],"assets":{}}`)

// Cancel implements [dispatch.Canceler].
func (*Platform) Cancel(context.Context, dispatch.Token, dispatch.Ref) error { return nil }

// Probe implements [dispatch.Prober].
func (*Platform) Probe(context.Context, dispatch.Token) error { return nil }
