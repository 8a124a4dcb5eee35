package simulator

import (
	"maps"
	"sync"
)

// Counts are what happened to the jobs of one tag, whatever the clients were told.
type Counts struct {
	Creates int `json:"creates"` // jobs that came to be
	Starts  int `json:"starts"`  // requests to start one that were taken, also those that had no effect
	Runs    int `json:"runs"`    // times that one really began to run
	Cancels int `json:"cancels"` // requests to stop or remove one that were taken
}

// Traffic is the requests of one account.
type Traffic struct {
	Requests int `json:"requests"`
	Now      int `json:"now"`  // being answered
	Peak     int `json:"peak"` // being answered at once, at most
}

// Tally is all that an Oracle knows.
type Tally struct {
	Tags     map[string]Counts  `json:"tags"`
	Accounts map[string]Traffic `json:"accounts"`
	Routes   map[string]int     `json:"routes"` // requests, also those that were struck by a fault
}

// Oracle knows what really happened. The zero Oracle knows nothing yet.
type Oracle struct {
	mu    sync.Mutex
	tally Tally
}

// Of gives the counts of one tag. "" is the tag of the jobs that carry none.
func (o *Oracle) Of(tag string) Counts {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tally.Tags[tag]
}

// Sum gives the counts of all tags together.
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

// Requests gives how many requests a route had, such as "POST /jobs".
func (o *Oracle) Requests(route string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tally.Routes[route]
}

// Tally gives a copy of all that is known.
func (o *Oracle) Tally() Tally {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Tally{Tags: maps.Clone(o.tally.Tags), Accounts: maps.Clone(o.tally.Accounts), Routes: maps.Clone(o.tally.Routes)}
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
