package dispatch

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// platformAt is a schedule with the bookings of some accounts, and all the send times that were used.
type platformAt struct {
	Schedule
	now    time.Time
	pace   time.Duration
	booked map[Account]*[2]time.Time
	used   []time.Time
}

func newPlatformAt(pace time.Duration) *platformAt {
	return &platformAt{now: time.Unix(1e9, 0), pace: pace, booked: map[Account]*[2]time.Time{}}
}

func (p *platformAt) ask(a Account, purpose Purpose) SendTime {
	if p.booked[a] == nil {
		p.booked[a] = &[2]time.Time{}
	}
	booked, ahead := &time.Time{}, EnterWithin
	if purpose != Calling {
		booked, ahead = &p.booked[a][purpose], SendTimeAhead
	}
	s, _ := p.Reserve(SendTimeRequest{Account: a, Pace: p.pace, Purpose: purpose, Ahead: ahead}, booked, p.now)
	if s.Given {
		p.used = append(p.used, p.now.Add(s.Wait))
	}
	return s
}

// Used send times are a pace apart, whatever is asked; but a visit may come late by a pace.
func TestSchedule_SendTimesAreAPaceApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlatformAt(time.Duration(rapid.SampledFrom([]int{1, 20, 333, 3000}).Draw(t, "pace")) * time.Millisecond)
		for range rapid.IntRange(1, 300).Draw(t, "asks") {
			a := Account(rapid.SampledFrom([]string{"p/a", "p/b", "p/c", "p/d"}).Draw(t, "account"))
			p.ask(a, Purpose(rapid.IntRange(0, 2).Draw(t, "purpose")))
			if steps := rapid.SampledFrom([]int{0, 0, 0, 1, 7, 40}).Draw(t, "time"); steps > 0 {
				p.now = p.now.Add(time.Duration(steps) * p.pace / 4)
			}
		}
		slices.SortFunc(p.used, time.Time.Compare)
		for i := 1; i < len(p.used); i++ {
			if p.used[i].Sub(p.used[i-1]) < 0 || i > 1 && p.used[i].Sub(p.used[i-2]) < p.pace {
				t.Fatalf("send times %v, %v apart", p.used[i-1].Sub(p.used[max(0, i-2)]), p.used[i].Sub(p.used[i-1]))
			}
		}
	})
}

// Accounts are read in turn at nine tenths of the rate, while calls take the other tenth, and none of them waits long.
func TestSchedule_ReadsAreFirstComeFirstServed(t *testing.T) {
	const accounts, pace = 300, 20 * time.Millisecond
	p := newPlatformAt(pace)
	begin := p.now
	name := func(i int) Account { return Account("p/" + string(rune('0'+i))) }
	next := map[Account]time.Time{}
	last, most, calls := map[Account]time.Time{}, time.Duration(0), time.Duration(0)
	reads := 0
	for turn := 0; p.now.Sub(begin) < time.Minute; p.now, turn = p.now.Add(pace), turn+1 {
		if turn%10 == 0 {
			calls = max(calls, p.ask("p/call", Calling).Wait)
		}
		for i := range accounts {
			a := name(i)
			if p.now.Before(next[a]) {
				continue
			}
			s := p.ask(a, Reading)
			next[a] = p.now.Add(s.Wait)
			if !s.Given {
				continue
			}
			if before := last[a]; !before.IsZero() {
				most = max(most, p.now.Add(s.Wait).Sub(before))
			}
			last[a] = p.now.Add(s.Wait)
			reads++
		}
	}
	if round := accounts * pace; most > round*10/9+2*pace {
		t.Errorf("an account was not read for %v, want %v", most, round*10/9)
	}
	if want := int(time.Minute / pace * 9 / 10); reads < want-accounts-2 {
		t.Errorf("%d readings in a minute, want %d", reads, want)
	}
	if calls > 20*pace {
		t.Errorf("a call was let wait for %v", calls)
	}
}

// A send time that was missed is lost, and the account that missed it gets another soon.
func TestSchedule_MissedSendTimeIsReplaced(t *testing.T) {
	p := newPlatformAt(100 * time.Millisecond)
	for i := range 500 {
		p.ask(Account(rune('a'+i)), Reading)
	}
	s := p.ask("late", Reading)
	p.now = p.now.Add(s.Wait + SendTimeAhead + 150*time.Millisecond)
	for i := range 500 {
		p.ask(Account(rune('a'+500+i)), Reading)
	}
	if s := p.ask("late", Reading); !s.Given || s.Wait > 10*p.pace {
		t.Errorf("served %v", s)
	}
	slices.SortFunc(p.used, time.Time.Compare)
	for i := 1; i < len(p.used); i++ {
		if d := p.used[i].Sub(p.used[i-1]); d < p.pace {
			t.Errorf("two requests within %v", d)
		}
	}
}
