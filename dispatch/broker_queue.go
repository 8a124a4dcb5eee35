package dispatch

import (
	"cmp"
	"context"
	"time"
)

// waitsForSlot reports whether a job waits for a slot, or for a platform that accepts no submissions at present, and
// not for an action of its owner or of the operator.
func (r Record) waitsForSlot() bool { return r.Phase == Waiting && r.TakesItsTurn() }

// TakesItsTurn reports whether the job has a place in the queue while it waits, since nothing has to be done before by
// its owner or the operator.
func (r Record) TakesItsTurn() bool {
	switch r.Attention {
	case None, Full, NotTaken, Unreachable, ServiceChanged:
		return true
	}
	return false
}

// Rank is the place of a waiting job in the order of its line.
type Rank struct {
	Due time.Time
	ID  JobID
}

func (j Job) rank() Rank { return Rank{j.Due, j.ID} }

// compare orders ranks as jobs are submitted.
func (r Rank) compare(s Rank) int { return cmp.Or(r.Due.Compare(s.Due), cmp.Compare(r.ID, s.ID)) }

// queuePlaces holds, for lines, how many jobs are ahead of their waiting jobs.
type queuePlaces map[lineAt]*linePlaces

// linePlaces are those of one line: of all its jobs, if several parts of a list needed them.
type linePlaces struct {
	ahead map[JobID]int
	whole bool
}

type lineAt struct {
	Account
	UserID
	TaskID
}

// setQueuePlaces sets Ahead of the records that wait for their turn. Of the jobs of a line, it reads those between the
// first and the last record. known is that of the records before in the same list: a line that occurs there is read as
// a whole, once.
func (b *Broker) setQueuePlaces(ctx context.Context, records []Record, known queuePlaces) ([]Record, error) {
	between := waitingBetween(records)
	for of, ends := range between {
		again := known[of] != nil
		if again && known[of].whole {
			continue
		}
		if again {
			ends = [2]Rank{{}, {Due: Never}}
		}
		ahead, err := b.placesBetween(ctx, of, ends[0], ends[1])
		if err != nil {
			return records, err
		}
		known[of] = &linePlaces{ahead, again}
	}
	for i, r := range records {
		of := lineAt{r.Account, r.Owner, r.Task}
		if _, asked := between[of]; !asked || !r.waitsForSlot() {
			continue
		}
		if n, waits := known[of].ahead[r.ID]; waits {
			records[i].Ahead = &n
		}
	}
	return records, nil
}

// waitingBetween returns, for each line of which records wait for their turn, the first and the last of them.
func waitingBetween(records []Record) map[lineAt][2]Rank {
	between := map[lineAt][2]Rank{}
	for _, r := range records {
		if !r.waitsForSlot() || r.Due.IsZero() {
			continue
		}
		of, at := lineAt{r.Account, r.Owner, r.Task}, r.rank()
		ends, ok := between[of]
		if !ok || at.compare(ends[0]) < 0 {
			ends[0] = at
		}
		if !ok || at.compare(ends[1]) > 0 {
			ends[1] = at
		}
		between[of] = ends
	}
	return between
}

// QueuePlaces returns how many jobs are ahead of each job of a task that waits at an account. A list shows it on
// records for which TakesItsTurn holds.
func (b *Broker) QueuePlaces(ctx context.Context, u UserID, id TaskID, a Account) (map[JobID]int, error) {
	return b.placesBetween(ctx, lineAt{a, u, id}, Rank{}, Rank{Due: Never})
}

// placesBetween returns how many jobs are ahead of the waiting jobs of a line from one to another.
func (b *Broker) placesBetween(ctx context.Context, of lineAt, from, to Rank) (map[JobID]int, error) {
	l := Line{Owner: of.UserID, Task: of.TaskID}
	lines, err := b.queues.lines(ctx, b.Store, of.Account)
	if err != nil {
		return nil, err
	}
	before := 0
	if from != (Rank{}) {
		if before, err = b.Store.WaitingBefore(ctx, Job{Account: of.Account, Owner: of.UserID, Task: of.TaskID, Due: from.Due,
			ID: from.ID}); err != nil {
			return nil, err
		}
	}
	ids, err := b.Store.Waiting(ctx, of.Account, l, from, to)
	places, place := make(map[JobID]int, len(ids)), ahead(lines, l)
	for i, id := range ids {
		places[id] = place(before + i)
	}
	return places, err
}

// setQueuePlace does what setQueuePlaces does for a single record, and reads no other job for it.
func (b *Broker) setQueuePlace(ctx context.Context, r Record) (Record, error) {
	if !r.waitsForSlot() {
		return r, nil
	}
	lines, err := b.queues.lines(ctx, b.Store, r.Account)
	if err != nil {
		return r, err
	}
	position, err := b.Store.WaitingBefore(ctx, r.Job)
	if err != nil {
		return r, err
	}
	n := ahead(lines, Line{Owner: r.Owner, Task: r.Task})(position)
	r.Ahead = &n
	return r, nil
}
