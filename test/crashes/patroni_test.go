//go:build failover

package crashes

import (
	"syscall"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/conformance/postgres"
)

// submittedWithin is the documented limit from the moment at which a new primary can be written until the next
// submission arrives at a platform.
const submittedWithin = 30 * time.Second

// TestFailover_OfPatroni switches the primary of a cluster over, kills it, and freezes it, while three replicas drain
// tasks on both protocols.
func TestFailover_OfPatroni(t *testing.T) {
	for _, fault := range []struct {
		name  string
		lose  func(*testing.T, *postgres.Cluster, int)
		after func(*testing.T, *postgres.Cluster, int)
	}{
		{"switched over", func(t *testing.T, db *postgres.Cluster, n int) { db.Switchover(t, n) }, nil},
		{"killed", func(t *testing.T, db *postgres.Cluster, n int) { db.Signal(t, n, syscall.SIGKILL) },
			func(t *testing.T, db *postgres.Cluster, n int) { db.Launch(t, n) }},
		{"frozen", func(t *testing.T, db *postgres.Cluster, n int) { db.Signal(t, n, syscall.SIGSTOP) },
			func(t *testing.T, db *postgres.Cluster, n int) { db.Signal(t, n, syscall.SIGCONT) }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			db := postgres.NewCluster(t)
			s := size{jobs: 600, send: "10s", run: 2 * time.Second}
			c := newBothCluster(t, s, db.URL)
			replicas := []replica{c.launch(), c.launch(), c.launch()}
			c.submitBoth(replicas[0])
			c.progress(0.2)
			was := db.Primary()
			lost := time.Now()
			fault.lose(t, db, was)
			db.AwaitPrimary(t, was)
			back, before := time.Now(), c.submissions()
			if !until(5*time.Minute, func() bool { return c.submissions() > before }) {
				t.Fatal("nothing is submitted after the failover")
			}
			took := time.Since(back)
			t.Logf("a new primary after %v, the next submission %v later", back.Sub(lost).Round(100*time.Millisecond),
				took.Round(100*time.Millisecond))
			if took > submittedWithin {
				t.Errorf("the next submission is later than %v", submittedWithin)
			}
			c.accepted(replicas[1], "after the failover")
			if fault.after != nil {
				fault.after(t, db, was)
			}
			db.AwaitWhole(t)
			c.db = database(t, c.own) // the connection of before may lead to the server that was the primary
			c.finish(replicas...)
			c.dsn = writable(c.dsn)
			c.checkBoth()
		})
	}
}

// submissions counts the creates and executes that the platforms have received.
func (c *cluster) submissions() (n int) {
	for _, p := range c.platforms {
		n += p.Oracle.Sum().Creates
	}
	return n + c.processes.Oracle.Requests(execute)
}
