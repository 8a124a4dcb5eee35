package deviations

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestDeviations_OfOpenEOPlatforms(t *testing.T) { play(t, "openeo", openEOScenes) }

func TestDeviations_OfOGCPlatforms(t *testing.T) { play(t, "ogc", ogcScenes) }

// TestDeviations_InTasks plays the scenes in which a task's statuses are read from listings.
func TestDeviations_InTasks(t *testing.T) {
	for _, c := range taskScenes {
		t.Run(c.does, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { c.play(with(t, c.at)) })
		})
	}
}

// play plays each scene twice: with a client that watches, and with a client that reads only at the start and at the
// end. Both must see the same end.
func play(t *testing.T, protocol string, scenes []scene) {
	for _, c := range scenes {
		c.most = cmp.Or(c.most, 25*time.Minute)
		c.books = cmp.Or(c.books, once)
		t.Run(c.does, func(t *testing.T) {
			t.Parallel()
			t.Run("watched", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if seen := c.play(with(t, protocol), often); strings.Join(seen, " → ") != c.tells {
						t.Errorf("the owner saw\n%s, want\n%s", strings.Join(seen, " → "), c.tells)
					}
				})
			})
			t.Run("alone", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := with(t, protocol)
					s.inMemory = true
					seen := c.play(s, func(time.Duration) time.Duration { return c.most })
					if last := seen[len(seen)-1]; !strings.HasSuffix(c.tells, last) {
						t.Errorf("at the end the owner saw %s, want %s", last, c.tells)
					}
				})
			})
		})
	}
}

// play plays the scene and returns the states that the owner saw, without repetitions.
func (c scene) play(s *stage, when client) (seen []string) {
	mends(s)
	if c.acts != nil {
		c.acts(s)
	}
	defer s.open()()
	now := s.submit()
	seen = []string{now.String()}
	ended := s.watch(c.most, when, c.deeds, func() bool {
		if now = s.read(); now.String() != seen[len(seen)-1] {
			seen = append(seen, now.String())
		}
		return now.ended()
	})
	if !ended {
		s.Errorf("the job has not ended: %s", now)
	}
	if got := s.oracle.Sum(); got != c.books {
		s.Errorf("events at the platform: %+v, want %+v", got, c.books)
	}
	if c.check != nil {
		c.check(s)
	}
	return seen
}

func (c taskScene) play(s *stage) {
	mends(s)
	if c.acts != nil {
		c.acts(s)
	}
	before := s.oracle.Sum().Creates
	defer s.open()()
	s.submitTask()
	var now map[string]int
	s.watch(2*time.Hour, often, c.deeds, func() bool {
		now, _ = s.readTask()
		return now["finished"]+now["failed"]+now["canceled"] == 6
	})
	if seen := fmt.Sprintf("%d finished, %d failed", now["finished"], now["failed"]); seen != c.tells {
		s.Errorf("the owner saw %s, want %s", seen, c.tells)
	}
	if got := s.oracle.Sum(); got.Creates-before != 6 || got.Starts != 6 || got.Runs != 6 || got.Cancels != 0 {
		s.Errorf("events at the platform: %+v, of which %d creates of other clients", got, before)
	}
}

// deed is an action at a time after the submission.
type deed struct {
	after time.Duration
	do    func(*stage)
}

// watch calls look at the times that the client chooses until look returns true or the time most is over, and performs
// the deeds meanwhile. It reports whether look returned true.
func (s *stage) watch(most time.Duration, when client, deeds []deed, look func() (ended bool)) bool {
	s.Helper()
	for begin := time.Now(); ; {
		if look() {
			if len(deeds) > 0 {
				s.Errorf("the job ended before all deeds were done, after %v", time.Since(begin))
			}
			return true
		}
		next := when(time.Since(begin))
		if next > most || next <= time.Since(begin) {
			return false
		}
		for ; len(deeds) > 0 && deeds[0].after <= next; deeds = deeds[1:] {
			pass(time.Until(begin.Add(deeds[0].after)))
			deeds[0].do(s)
		}
		pass(time.Until(begin.Add(next)))
	}
}

// client returns the time of the next read, given the time since the submission. Both are relative to the submission.
type client func(since time.Duration) time.Duration

// often is a client that reads every ten seconds in the first half hour, then every five minutes. Three seconds are
// added so that it never reads at the same instant as the broker.
func often(since time.Duration) time.Duration {
	const aside = 3 * time.Second
	every := 10 * time.Second
	if since > 30*time.Minute {
		every = 5 * time.Minute
	}
	return since.Truncate(every) + every + aside
}

// pass lets time pass on the fake clock.
func pass(d time.Duration) { time.Sleep(d) }

// TestDocument_ListsWhatIsTested checks that docs/platforms.md lists exactly the tested scenes: in each section first
// those of which the owner sees nothing.
func TestDocument_ListsWhatIsTested(t *testing.T) {
	text, err := os.ReadFile("../../docs/platforms.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("## openEO"))
	var rows []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "| ") && strings.Contains(line, ". |") {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	var want, table []string
	list := func(does, tells string) {
		if tells == good || tells == allFinish {
			want = append(want, "- "+does)
		} else {
			table = append(table, fmt.Sprintf("| %s | %s |", does, tells))
		}
	}
	for _, scenes := range [][]scene{openEOScenes, ogcScenes} {
		for _, c := range scenes {
			list(c.does, c.tells)
		}
		want, table = append(want, table...), nil
	}
	for _, c := range taskScenes {
		list(c.does, c.tells)
	}
	want = append(want, table...)
	for i := range max(len(rows), len(want)) {
		if i >= len(rows) || i >= len(want) || rows[i] != want[i] {
			t.Fatalf("row %d of docs/platforms.md differs; the rows must be\n%s", i+1, strings.Join(want, "\n"))
		}
	}
}
