package dispatch

import (
	"context"
	"slices"
	"time"
)

// missingDocuments collects, while due jobs are selected, which of them have no document yet.
type missingDocuments struct {
	outcomes []jobOutcome // of jobs whose documents are not available now
	checkAt  time.Time    // when to check again for documents that are being fetched; zero: none is
}

// ready returns at most n due jobs of a line whose documents are available. The other jobs keep waiting. A job whose
// document was requested less than fetchGrace ago is left unchanged. A job whose document is not available gets an
// outcome to be saved.
func (v *visit) ready(ctx context.Context, w *missingDocuments, l Line, n int) ([]Job, error) {
	p, can := v.backend.Platform.(Preparer)
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

func (v *visit) withDocuments(ctx context.Context, p Preparer, w *missingDocuments, jobs []Job) (good []Job,
	err error) {
	for _, j := range jobs {
		s, err := v.service(ctx, j)
		if Is(err, NotFound) { // purged
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
			w.outcomes = append(w.outcomes, jobOutcome{j, Outcome{Asked: AskPrepare, Attempt: j.Attempt, Epoch: j.Epoch,
				Err: err}})
		}
	}
	return good, nil
}

// fetch requests the document of a job. It returns an error if too many fetches are queued, or if the document was
// requested more than fetchGrace ago.
func (v *visit) fetch(w *missingDocuments, j Job, s Service, address string) error {
	prep := v.visits.Documents.prepare(v.backend, j.Owner, v.account, s, address)
	if prep == nil {
		return notFetched(address, false)
	}
	late, underWay := v.visits.Documents.preparing.late(prep)
	if time.Now().Before(late) {
		w.checkAt = earlier(w.checkAt, late)
		return nil
	}
	return notFetched(address, underWay)
}

// serviceKey identifies a service: the jobs of a task share one.
type serviceKey struct {
	task TaskID
	job  JobID
}

// serviceOf is the service of a job.
type serviceOf struct {
	Service
	pinned bool // to a document, which need not be fetched
}

// service returns the service of a job. It is read once for all jobs of a task.
func (v *visit) service(ctx context.Context, j Job) (serviceOf, error) {
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
	setInMap(&v.services, key, s)
	return s, nil
}

// readyLines returns the lines that can get free slots. It adds the jobs of the lines whose turn it is to the map
// ready. Lines without a job whose document is available are left out, so that the other lines get their slots.
func (v *visit) readyLines(ctx context.Context, w *missingDocuments, ready map[Line][]Job, free int) ([]Line, error) {
	lines := slices.Clone(v.agenda.Lines)
	for range prepareRounds {
		before := len(lines)
		for _, l := range share(lines, free) {
			if _, known := ready[l]; known {
				continue
			}
			jobs, err := v.ready(ctx, w, l, free)
			if err != nil {
				return lines, err
			}
			ready[l] = jobs
		}
		lines = slices.DeleteFunc(lines, func(l Line) bool { jobs, known := ready[l]; return known && len(jobs) == 0 })
		if len(lines) == before {
			break
		}
	}
	return lines, nil
}
