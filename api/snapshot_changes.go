package api

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// difference is what changed between two snapshots.
type difference struct {
	tasks, jobs               []int64
	removedTasks, removedJobs []int64
	message                   []byte // nil: the snapshot is not held
}

func (d difference) none() bool {
	return len(d.tasks)+len(d.jobs)+len(d.removedTasks)+len(d.removedJobs) == 0
}

// since returns what changed after was. Its message is encoded once for all clients that saw the same items.
func (p *snapshot) since(was *items) (difference, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if was == p.items {
		return difference{}, nil
	}
	if p.was == was {
		return p.news, nil
	}
	d := compare(was, p.items)
	if p.message != nil && !d.none() {
		if err := p.encode(&d, p.message, p.items); err != nil {
			return d, err
		}
	}
	p.was, p.news = was, d
	return d, nil
}

// encode writes the message of a difference. The jobs and tasks that changed stand in text, where items says.
func (p *snapshot) encode(d *difference, text []byte, at *items) error {
	tasks := shown(text, at, true, d.tasks)
	if p.task != nil && len(d.tasks) > 0 {
		tasks = []json.RawMessage{p.summary}
	}
	data, err := dispatch.Encode(StatusChanges{UpscalingTasks: tasks, ProcessingJobs: shown(text, at, false, d.jobs),
		RemovedTasks: d.removedTasks, RemovedJobs: d.removedJobs})
	if err != nil {
		return err
	}
	d.message = message("changes", p.topic.task, data, "")
	return nil
}

// shown returns the encoded tasks or jobs that stand in text.
func shown(text []byte, at *items, tasks bool, ids []int64) (all []json.RawMessage) {
	for _, id := range ids {
		if i := at.of(itemID{tasks, id}); i.begin < i.end {
			all = append(all, text[i.begin:i.end])
		}
	}
	return all
}

// sent returns what a stream keeps of a snapshot after sending it: a short message to send again, or the items to
// compare the next snapshot with.
func (p *snapshot) sent(changes bool) *snapshot {
	s := &snapshot{outline: p.outline, topic: p.topic}
	if !changes {
		s.items = nil
	}
	if !changes && len(p.message) <= seenMessage {
		s.message = p.message
	}
	return s
}

// StatusChanges is the data of a message of type changes: the new or changed jobs and tasks, and the ids of deleted
// ones.
type StatusChanges struct {
	UpscalingTasks []json.RawMessage `json:"upscaling_tasks"`
	ProcessingJobs []json.RawMessage `json:"processing_jobs"`
	RemovedTasks   []int64           `json:"removed_upscaling_tasks"`
	RemovedJobs    []int64           `json:"removed_processing_jobs"`
}

const readSingly = 32 // up to so many changed jobs are read singly; for more the whole list is read

// changes writes the changes of a snapshot that is not held, as they are in the database now.
func (r *renderer) changes(p *snapshot, d difference) error {
	if err := r.text(beforeLists); err != nil {
		return err
	}
	if err := r.changedTasks(p, d.tasks); err != nil {
		return err
	}
	if err := r.text(betweenLists); err != nil {
		return err
	}
	if err := r.changedJobs(p, d.jobs); err != nil {
		return err
	}
	removed, err := dispatch.Encode(StatusChanges{RemovedTasks: d.removedTasks, RemovedJobs: d.removedJobs})
	if err != nil {
		return err
	}
	_, after, _ := bytes.Cut(removed, []byte(`"processing_jobs":null`))
	return r.text("]" + string(after))
}

func (r *renderer) changedTasks(p *snapshot, ids []int64) error {
	if p.task != nil && len(ids) > 0 {
		return r.element(r.taskSummary(*p.task))
	}
	if len(ids) == 0 {
		return nil
	}
	for t, err := range r.Broker.Tasks(r.ctx, p.topic.user, dispatch.Page{}) {
		if err == nil && slices.Contains(ids, int64(t.ID)) {
			err = r.element(r.taskSummary(t))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *renderer) changedJobs(p *snapshot, ids []int64) error {
	if len(ids) > readSingly {
		return r.someJobs(p, ids)
	}
	release, err := r.reserve(p.topic.user, p.largest)
	if err != nil {
		return err
	}
	defer release()
	for _, id := range ids {
		j, err := r.Broker.Read(r.ctx, p.topic.user, dispatch.JobID(id), dispatch.AsKnown)
		if dispatch.Is(err, dispatch.NotFound) {
			continue // the next message reports it as deleted
		}
		if r.bare {
			j.Request.Parameters = nil
		}
		if err == nil {
			err = r.summarized(r.summary(j))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// someJobs writes the jobs of a snapshot that have these ids.
func (r *renderer) someJobs(p *snapshot, ids []int64) error {
	wanted, since := make(map[dispatch.JobID]bool, len(ids)), int64(math.MaxInt64)
	for _, id := range ids {
		wanted[dispatch.JobID(id)] = true
		since = min(since, p.items.of(itemID{false, id}).updated)
	}
	jobs := r.Broker.Jobs(r.ctx, p.topic.user, dispatch.Page{})
	if p.task != nil {
		release, err := r.shares(p.topic, p.largest)
		if err != nil {
			return err
		}
		defer release()
		jobs = r.Broker.TaskJobs(r.ctx, p.topic.user, p.topic.task, dispatch.Page{Since: time.UnixMicro(since - 1)})
	}
	for j, err := range jobs {
		if err == nil && wanted[j.ID] {
			err = r.job(j)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
