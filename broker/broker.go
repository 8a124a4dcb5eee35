package broker

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/catalogue/documents"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/hub"
	"github.com/eodispatch/eodispatch/visit"
)

const (
	decideWithin = 10 * time.Second // how long Accept waits for the platform's response
	resultsFresh = 10 * time.Second // maximum age of a status that shows that there are no results yet
	minPoll      = 2 * time.Second
	elsewhere    = time.Second // how often a waiting request reads what another replica may have saved
	signInWithin = time.Second // how long AcceptTask waits to learn that the user must sign in
)

// Broker accepts jobs and runs them at platforms. Set its fields before first use.
type Broker struct {
	*dispatch.Setup
	*hub.Hub
	*documents.Documents
	*visit.Visits
	Store     Store
	Records   Records
	Items     Items
	UserJobs  int // how many jobs a user may have that have not ended; 0: any number
	UserDaily int // how many jobs a user may submit in a day; 0: any number
	// how many bytes the requests of a user's jobs that have not ended may take; 0: any number
	UserBytes int64
	Policies  []dispatch.Policy // of operators, for some services

	// Recorded returns the output formats that the catalogue's record of a service names; nil: no service has a record.
	Recorded func(dispatch.Label, dispatch.Service) []string

	// Describe returns the Item of a job whose results were read, without Until; t is its task, if it has one. nil:
	// Items have no more than the results.
	Describe func(r JobResult, t dispatch.TaskRecord) dispatch.Item

	Targets dispatch.Targets // nil: a request that asks to be notified is refused

	// AreaOf returns the area in km² of the largest of parameters that are bounding boxes or GeoJSON; 0 if none is.
	// nil: forecasts and estimates know no areas.
	AreaOf func(parameters map[string]json.RawMessage) float64

	counted sync.Map            // countedQueues, by account
	limits  callLimits          // of calls outside visits, synchronous runs, files, and changes of tasks
	overdue visit.PlatformNotes // that did not report an awaited status
}

// New returns a broker that keeps everything in a store.
func New(all Stores, s dispatch.Setup) *Broker {
	h := &hub.Hub{Setup: &s}
	defined := &documents.Documents{Setup: &s, Store: all, Hub: h}
	visits := &visit.Visits{Setup: &s, Store: all, Hub: h, Documents: defined}
	return &Broker{Setup: &s, Hub: h, Documents: defined, Visits: visits, Store: all, Records: all, Items: all}
}

// audit logs a request of a user, in one line with fixed attributes.
func (b *Broker) audit(ctx context.Context, action string, u dispatch.UserID, first dispatch.Job, jobs int) {
	b.Log.InfoContext(ctx, "audit", "action", action, "user", string(u), "account", string(first.Account), "job",
		int64(first.ID), "task", int64(first.Task), "jobs", jobs)
	if first.ID != 0 && jobs <= 1 {
		b.Observing().Acted(action, first)
	}
}
