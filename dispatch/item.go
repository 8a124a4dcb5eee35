package dispatch

import (
	"encoding/json"
	"time"
)

// Item is what is kept of the results of one finished job.
type Item struct {
	Job     JobID
	Task    TaskID
	Account Account
	// Given: the platform returned the results in its response to the submission, and cannot be asked for them.
	Given bool
	Read  bool // the results were read; if not, nothing below is known

	// west, south, east, north in degrees; west > east crosses the antimeridian; nil: not known
	Box         []float64
	First, Last time.Time       // of the data. First is zero if that is not known: then it is from before Last
	Head        json.RawMessage // geometry and properties of a STAC Item
	// Body is the STAC Collection as the platform has it. nil: it is longer than KeptResults, or is not asked for.
	Body  json.RawMessage
	Until time.Time // when a link of Body expires
}

// KeptResults is the size in bytes up to which the results of a job are kept. Longer ones are read anew each time.
const KeptResults = 1 << 20

// Fresh reports whether the results are kept and their links are valid.
func (i Item) Fresh(now time.Time) bool { return i.Body != nil && (i.Given || now.Before(i.Until)) }

// DueItem is an Item whose results are to be read.
type DueItem struct {
	Owner UserID
	Job   JobID
	Tries int // how often that was begun
}

// Pause returns the time until the results are to be read again if the present try fails; 0: only a user reads them.
func (d DueItem) Pause() time.Duration {
	if d.Tries > len(meterAges) {
		return 0
	}
	return meterAges[max(d.Tries, 1)-1]
}

// ItemQuery selects Items of an owner that were read. Zero members select all.
type ItemQuery struct {
	Jobs     []JobID
	Tasks    []TaskID
	Services []ServiceHash
	Labels   map[string]string        // of the job, or of its task
	Box      []float64                // as in Item; Items whose place is not known have none
	Meets    func(box []float64) bool // what the boxes of Items fulfil besides, in a moment; nil: all do
	From, To time.Time                // the data are of a time in between; zero: open
	Limit    int
	After    string // ItemPage.Next of the page before
}

// ItemPage is a page of Items, with Head and Body.
type ItemPage struct {
	Items []Item
	Next  string // "": there are no more
}

// ItemExtent is what the Items of a task cover, or those of an owner.
type ItemExtent struct {
	Box         []float64 // nil: not known
	First, Last time.Time // zero: not known
}
