package wait

import (
	"testing"
	"testing/synctest"
	"time"
)

// policy returns a policy whose numbers all differ.
func policy(offer func()) Policy {
	return Policy{
		Spin: 40 * time.Microsecond, Least: 10 * time.Microsecond, Yield: 100 * time.Microsecond, Offer: offer, SpinTurns: 3, YieldTurns: 2,
		Late: 30 * time.Microsecond, Calm: 2, Rest: 50 * time.Microsecond, MaxRest: 150 * time.Microsecond,
	}
}

// until looks in vain every microsecond until it gets the step want, and returns how long
// that took.
func until(t *testing.T, w *Waiter, want Step) time.Duration {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Microsecond) {
		switch s := w.Idle(); {
		case s == want:
			return time.Since(begin)
		case s > want:
			t.Fatalf("step %d before %d", s, want)
		}
	}
}

func equal(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// A wait spins, offers and sleeps, at the policy's times. The spinning time halves, down to
// the least, after spinning in vain, and doubles, up to the most, after success.
func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		offers := 0
		w := New(policy(func() { offers++ }))
		if s := w.Idle(); s != First {
			t.Errorf("the first look in vain is step %d", s)
		}
		equal(t, "first spin", until(t, &w, Offered), 40*time.Microsecond)
		if offers != 1 {
			t.Errorf("%d offers, want 1", offers)
		}
		equal(t, "offers", until(t, &w, Sleep), 60*time.Microsecond)
		equal(t, "waited", w.Waited(), 100*time.Microsecond)
		for _, want := range []time.Duration{20, 10, 10} {
			w.Moved()
			equal(t, "waited after something moved", w.Waited(), 0)
			w.Idle()
			equal(t, "halved", until(t, &w, Offered), want*time.Microsecond)
		}
		w.Begin() // does not count as success
		w.Idle()
		equal(t, "begun", until(t, &w, Offered), 10*time.Microsecond)
		w.Begin()
		w.Idle()
		w.Moved() // at once, which says nothing about spinning
		for _, want := range []time.Duration{20, 40, 40} {
			w.Idle()
			w.Idle()
			w.Moved()
			w.Idle()
			equal(t, "doubled", until(t, &w, Offered), want*time.Microsecond)
			w.Begin()
		}
	})
}

// Where ranks are crowded, the spinning time begins at 0 and does not grow beyond the least.
func TestCrowded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy(nil)
		p.Crowded = true
		w := New(p)
		w.Idle()
		equal(t, "spin", until(t, &w, Offered), 0)
		w.Moved()
		for range 3 {
			w.Idle()
			w.Idle()
			w.Moved()
		}
		w.Idle()
		equal(t, "spin after success", until(t, &w, Offered), 10*time.Microsecond)
	})
}

// After an offer that took long, the next Calm waits sleep at once.
func TestCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const moves = Sleep + 1 // no look
		late := time.Duration(0)
		w := New(policy(func() { time.Sleep(late) }))
		w.Idle()
		time.Sleep(50 * time.Microsecond)
		late = 31 * time.Microsecond
		for i, want := range []Step{Offered, Sleep, moves, Sleep, moves, First} {
			if want == moves {
				w.Moved()
				continue
			}
			if s := w.Idle(); s != want {
				t.Errorf("look %d is step %d, want %d", i, s, want)
			}
		}
	})
}

// Sleeps double up to the longest, and begin anew when something has moved.
func TestRest(t *testing.T) {
	w := New(policy(nil))
	for range 2 {
		for _, want := range []time.Duration{50, 100, 150, 150} {
			equal(t, "rest", w.Rest(), want*time.Microsecond)
		}
		w.Moved()
	}
}

func TestAllocations(t *testing.T) {
	w := New(policy(Yield))
	if n := testing.AllocsPerRun(100, func() {
		for w.Begin(); w.Idle() != Sleep; {
		}
		w.Rest()
		w.Moved()
	}); n != 0 {
		t.Errorf("a wait allocates %v times", n)
	}
}
