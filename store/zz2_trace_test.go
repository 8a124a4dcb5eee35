package store_test

import (
	"path/filepath"
	"testing"
	"fmt"

	"github.com/eodispatch/eodispatch/store"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/test/conformance"
)

func TestZZVisit(t *testing.T) {
	s := open(t, "sqlite:"+filepath.Join(t.TempDir(), "v.db"), conformance.WallClock{})
	store.ZZTrace(s)
	const jobs = 1000
	p := &prompt{jobs: int64(jobs), ending: make(chan struct{})}
	limits := dispatch.Limits{Jobs: 10_000, Requests: 8, MinPoll: 3600e9, Send: 30e9}
	b := conformance.NewBroker(s, p, &dispatch.Backend{Name: "p", Access: dispatch.AccessOpen, Platform: p,
		Limits: limits})
	task := &dispatch.Task{Owner: "ann", Account: "p/open", Request: dispatch.Request{Parameters: []byte(`{}`)},
		Dimension: "d"}
	kept := make([]dispatch.Draft, jobs)
	for i := range kept {
		kept[i] = dispatch.Draft{Body: []byte("1"), Job: dispatch.Job{Number: i + 1, Owner: "ann", Account: "p/open",
			Desired: dispatch.WantRun, Phase: dispatch.Waiting, Status: dispatch.Accepted}}
	}
	if _, err := s.Accept(t.Context(), dispatch.Key{}, task, kept); err != nil {
		t.Fatal(err)
	}
	store.ZZReport(jobs)
	stop := conformance.RunBroker(b)
	<-p.ending
	stop()
	fmt.Println("VISITS")
	store.ZZReport(jobs)
}
