package limits

import (
	"cmp"
	"time"
)

// Limits bounds what clients may send. The comments give units and defaults.
type Limits struct {
	Body     int64         // bytes of a request body; 10 MiB
	BodyTime time.Duration // for a whole request body to arrive; 30 s
	Depth    int           // nesting levels of JSON; 64
	Members  int           // members of one JSON object; 10,000
	Title    int           // characters of a title; 1,000
	Text     int           // characters of an endpoint, namespace, application or dimension name; 4,096
	Values   int           // values of a task's dimension; 10,000
	Tiles    int           // tiles of one area; 100,000
	Sockets  int           // open streams of one user, and waiting requests of one user; 100

	Rendering int64 // bytes of memory for reading and writing large requests; 128 MiB, at least 64 MiB

	// minimum average interval between requests of one user, and of one address; 0: unlimited
	UserPace, AddressPace time.Duration
	SignInPace            time.Duration // the same for one address on the sign-in pages; 100 ms
	UserRequests          int           // requests of one user that are served at once; 16
	AddressRequests       int           // requests of one address without a known user that are served at once; 512
}

// WithDefaults returns the limits with the defaults in place of zeros.
func (l Limits) WithDefaults() Limits {
	return Limits{
		Body:      cmp.Or(l.Body, 10<<20),
		BodyTime:  cmp.Or(l.BodyTime, 30*time.Second),
		Depth:     cmp.Or(l.Depth, 64),
		Members:   cmp.Or(l.Members, 10_000),
		Title:     cmp.Or(l.Title, 1_000),
		Text:      cmp.Or(l.Text, 4_096),
		Tiles:     cmp.Or(l.Tiles, 100_000),
		Sockets:   cmp.Or(l.Sockets, 100),
		Values:    cmp.Or(l.Values, 10_000),
		Rendering: cmp.Or(l.Rendering, renderMemory),
		UserPace:  l.UserPace, AddressPace: l.AddressPace, SignInPace: cmp.Or(l.SignInPace, 100*time.Millisecond),
		UserRequests: cmp.Or(l.UserRequests, 16), AddressRequests: cmp.Or(l.AddressRequests, 512),
	}
}
