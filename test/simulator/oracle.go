package simulator

import (
	"maps"
	"sync"
)

// Counts is what really happened to the jobs of one tag, whatever the clients saw.
type Counts struct {
	Creates int `json:"creates"` // jobs created
	Starts  int `json:"starts"`  // accepted start requests, including those without effect
	Runs    int `json:"runs"`    // times that a job really began to run
	Cancels int `json:"cancels"` // accepted requests to stop or remove a job
}

// Traffic counts the requests of one account.
type Traffic struct {
	Requests int `json:"requests"`
	Now      int `json:"now"`  // in progress
	Peak     int `json:"peak"` // maximum in progress at once
}

// Tally is all that an Oracle has counted.
type Tally struct {
	Tags     map[string]Counts  `json:"tags"`
	Accounts map[string]Traffic `json:"accounts"`
	Routes   map[string]int     `json:"routes"` // requests, including those struck by a fault
}

// Oracle records what really happened. The zero value is ready to use.
type Oracle struct {
	mu    sync.Mutex
	tally Tally
}

// Of returns the counts of one tag. "" is the tag of jobs without one.
func (o *Oracle) Of(tag string) Counts {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tally.Tags[tag]
}

// Sum returns the counts of all tags together.
func (o *Oracle) Sum() Counts {
	o.mu.Lock()
	defer o.mu.Unlock()
	var sum Counts
	for _, c := range o.tally.Tags {
		sum.Creates += c.Creates
		sum.Starts += c.Starts
		sum.Runs += c.Runs
		sum.Cancels += c.Cancels
	}
	return sum
}

// Requests returns the number of requests to a route, such as "POST /jobs".
func (o *Oracle) Requests(route string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tally.Routes[route]
}

// Tally returns a copy of everything recorded.
func (o *Oracle) Tally() Tally {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Tally{Tags: maps.Clone(o.tally.Tags), Accounts: maps.Clone(o.tally.Accounts),
		Routes: maps.Clone(o.tally.Routes)}
}

func (o *Oracle) note(tag string, what func(*Counts)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tally.Tags == nil {
		o.tally.Tags = map[string]Counts{}
	}
	c := o.tally.Tags[tag]
	what(&c)
	o.tally.Tags[tag] = c
}

// enter records the start of a request; done records its end.
func (o *Oracle) enter(route, account string) (done func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tally.Routes == nil {
		o.tally.Routes, o.tally.Accounts = map[string]int{}, map[string]Traffic{}
	}
	o.tally.Routes[route]++
	t := o.tally.Accounts[account]
	t.Requests++
	t.Now++
	t.Peak = max(t.Peak, t.Now)
	o.tally.Accounts[account] = t
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		t := o.tally.Accounts[account]
		t.Now--
		o.tally.Accounts[account] = t
	}
}
