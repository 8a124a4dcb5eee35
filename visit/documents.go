package visit

import (
	"context"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/documents"
)

// missingDocuments collects, while due jobs are selected, which of them have no document yet.
type missingDocuments struct {
	outcomes []jobOutcome // of jobs whose documents are not available now
	checkAt  time.Time    // when to check again for documents that are being fetched; zero: none is
}

// ready returns at most n due jobs of a line whose documents are available. The other jobs keep waiting. A job whose
// document was requested less than fetchGrace ago is left unchanged. A job whose document is not available gets an
// outcome to be saved.
func (v *visit) ready(ctx context.Context, w *missingDocuments, l dispatch.Line, n int) ([]dispatch.Job, error) {
	p, can := v.backend.Platform.(dispatch.Preparer)
	jobs, err := v.visits.Store.Ready(ctx, v.account, l, n)
	if err != nil || !can {
		return jobs, err
	}
	good, err := v.withDocuments(ctx, p, w, jobs)
	if err != nil || len(good) == len(jobs) {
		return good, err
	}
	more, err := v.visits.Store.Ready(ctx, v.account, l, agendaSize)
	if err != nil || len(more) <= len(jobs) {
		return good, err
	}
	others, err := v.withDocuments(ctx, p, w, more[len(jobs):])
	good = append(good, others...)
	return good[:min(n, len(good))], err
}

func (v *visit) withDocuments(ctx context.Context, p dispatch.Preparer, w *missingDocuments,
	jobs []dispatch.Job) (good []dispatch.Job,
	err error) {
	for _, j := range jobs {
		s, err := v.service(ctx, j)
		if dispatch.Is(err, dispatch.NotFound) { // purged
			continue
		}
		if err != nil {
			return good, err
		}
		address := ""
		if !s.pinned {
			address, err = p.Needs(s.Service)
		}
		if err == nil && address == "" {
			good = append(good, j)
			continue
		}
		if err == nil {
			err = v.fetch(w, j, s.Service, address)
		}
		if err != nil {
			w.outcomes = append(w.outcomes, jobOutcome{j, dispatch.Outcome{Asked: dispatch.AskPrepare,
				Attempt: j.Attempt, Epoch: j.Epoch,
				Err: err}})
		}
	}
	return good, nil
}

// fetch requests the document of a job. It returns an error if too many fetches are queued, or if the document was
// requested more than fetchGrace ago.
func (v *visit) fetch(w *missingDocuments, j dispatch.Job, s dispatch.Service, address string) error {
	prep := v.visits.Documents.Prepare(v.backend, j.Owner, v.account, s, address)
	if prep == nil {
		return documents.NotFetched(address, false)
	}
	late, underWay := v.visits.Documents.Preparing.Late(prep)
	if time.Now().Before(late) {
		w.checkAt = dispatch.Earlier(w.checkAt, late)
		return nil
	}
	return documents.NotFetched(address, underWay)
}

// serviceKey identifies a service: the jobs of a task share one.
type serviceKey struct {
	task dispatch.TaskID
	job  dispatch.JobID
}

// serviceOf is the service of a job.
type serviceOf struct {
	dispatch.Service
	pinned bool // to a document, which need not be fetched
}

// service returns the service of a job. It is read once for all jobs of a task.
func (v *visit) service(ctx context.Context, j dispatch.Job) (serviceOf, error) {
	key := serviceKey{task: j.Task}
	if j.Task == 0 {
		key.job = j.ID
	}
	if s, known := v.services[key]; known {
		return s, nil
	}
	r, err := v.visits.Store.Request(ctx, j.ID)
	if err != nil {
		return serviceOf{}, err
	}
	if len(v.services) >= knownServices {
		v.services = nil
	}
	s := serviceOf{r.Service, r.PinnedToDocument()}
	dispatch.SetInMap(&v.services, key, s)
	return s, nil
}

// readyLines returns the lines that can get free slots. It adds the jobs of the lines whose turn it is to the map
// ready. Lines without a job whose document is available are left out, so that the other lines get their slots.
func (v *visit) readyLines(ctx context.Context, w *missingDocuments, ready map[dispatch.Line][]dispatch.Job,
	free int) ([]dispatch.Line, error) {
	lines := slices.Clone(v.agenda.Lines)
	for range prepareRounds {
		before := len(lines)
		for _, l := range dispatch.Share(lines, free) {
			if _, known := ready[l]; known {
				continue
			}
			jobs, err := v.ready(ctx, w, l, free)
			if err != nil {
				return lines, err
			}
			ready[l] = jobs
		}
		lines = slices.DeleteFunc(lines, func(l dispatch.Line) bool {
			jobs, known := ready[l]
			return known &&
				len(jobs) == 0
		})
		if len(lines) == before {
			break
		}
	}
	return lines, nil
}

const prepareRounds = 16 // how often readyLines replaces lines without a job whose document is available

const knownServices = 1000 // services that a visit keeps in memory
