package visit

import (
	"cmp"
	"context"
	"time"

	"github.com/eodispatch/eodispatch/catalogue/documents"
	"github.com/eodispatch/eodispatch/dispatch"
)

// missingDocuments collects, while due jobs are selected, which of them have no document yet.
type missingDocuments struct {
	outcomes []jobOutcome // of jobs whose documents are not available now
	checkAt  time.Time    // when to check again for documents that are being fetched; zero: none is
}

// withDocuments returns those of the jobs whose documents are available. A job whose document was requested less than
// fetchGrace ago is left unchanged. A job whose document is not available gets an outcome to be saved.
func (v *visit) withDocuments(ctx context.Context, w *missingDocuments, jobs []dispatch.Job) (good []dispatch.Job,
	err error) {
	p, can := v.backend.Platform.(dispatch.Preparer)
	if !can {
		return jobs, nil
	}
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
				Attempt: j.Attempt, Epoch: j.Epoch, Err: err}})
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

const knownServices = 1000 // services that a visit keeps in memory

// prepareAgain requests the documents of waiting jobs with the attention [dispatch.ApplicationUnreachable] again, and
// saves the outcomes. It runs when nothing can be submitted, so that such a job gets its place in the queue as soon as
// its document is available. It requests no other job's document.
func (v *visit) prepareAgain(ctx context.Context) error {
	v.fetching = time.Time{}
	if due := v.agenda.NextUnprepared; due.IsZero() || due.After(v.agenda.Now) {
		return nil
	}
	jobs, err := v.visits.Store.Unprepared(ctx, v.account, agendaSize)
	if err != nil {
		return err
	}
	w := missingDocuments{}
	good, err := v.withDocuments(ctx, &w, jobs)
	for _, j := range good {
		w.outcomes = append(w.outcomes, jobOutcome{j, dispatch.Outcome{Asked: dispatch.AskPrepare, Attempt: j.Attempt,
			Epoch: j.Epoch}})
	}
	return cmp.Or(err, v.keepPrepared(ctx, w))
}

// keepPrepared saves the outcomes of document checks, and records when to check again for documents that are being
// fetched.
func (v *visit) keepPrepared(ctx context.Context, w missingDocuments) error {
	v.fetching = w.checkAt
	if len(w.outcomes) == 0 {
		return nil
	}
	v.unsaved = append(v.unsaved, platformResponse{outcomes: w.outcomes})
	return v.saveAll(ctx)
}
