package report

import (
	"math"
	"runtime"
	"testing"
	"time"
)

// stepOf is the i-th step of a run of 2 experts.
func stepOf(i int) Step {
	return Step{Index: i, Loss: float64(i), Tokens: 3, Drops: 1, Elapsed: time.Millisecond, Load: []float64{0.25, 0.75}}
}

// A short run is kept as it is. In a long one points are means of as many steps each, all
// steps are in one of them, and the totals are those of all steps.
func TestHistory(t *testing.T) {
	for _, n := range []int{0, 1, 19, 20, 8191, 8192, 8193, 16384, 16385, 50000} {
		var h History
		for i := 1; i <= n; i++ {
			s := stepOf(i)
			if i == 5 {
				s.HeldOut = 2
			}
			h.Add(s)
		}
		if h.Count != n || h.Tokens != 3*n || h.Drops != n || h.Elapsed != time.Duration(n)*time.Millisecond || n > 0 && h.Last.Index != n {
			t.Errorf("%d steps: %+v", n, h.Last)
		}
		points := h.Points()
		if len(points) > kept || n > 2*kept && len(points) < kept/2 || n <= kept && len(points) != n {
			t.Errorf("%d steps are %d points", n, len(points))
		}
		from, tokens, held := 0, 0, 0
		for _, p := range points {
			if want := float64(from+1+p.Index) / 2; math.Abs(p.Loss-want) > 1e-9*want || p.Load[0] != 0.25 || p.Load[1] != 0.75 {
				t.Fatalf("%d steps: the point of steps %d to %d is %+v, want a loss of %v", n, from+1, p.Index, p, want)
			}
			from = p.Index
			tokens += p.Tokens
			if p.HeldOut == 2 {
				held++
			}
		}
		if from != n || tokens != 3*n || n >= 5 && held != 1 {
			t.Errorf("%d steps: points end at step %d and have %d tokens, %d with the held-out loss", n, from, tokens, held)
		}
		of := min(n, 20)
		if mean, k := h.Loss(); k != of || n > 0 && math.Abs(mean-(float64(n)-float64(of-1)/2)) > 1e-9*mean {
			t.Errorf("%d steps: loss %v over the last %d", n, mean, k)
		}
	}
	var h History
	for i := 1; i <= 2*kept+1; i++ {
		s := stepOf(i)
		if i == 7 {
			s.Loss = math.NaN()
		}
		h.Add(s)
	}
	if p := h.Points()[1]; p.Index != 8 || !math.IsNaN(p.Loss) {
		t.Errorf("steps 5 to 8 are the point %+v, want NaN", p)
	}
}

// Memory that is held does not grow with the number of steps.
func TestHistoryMemory(t *testing.T) {
	held := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var h History
	before := held()
	n := 0
	for range 4 * kept {
		n++
		h.Add(stepOf(n))
	}
	first := held()
	for range 16 * kept {
		n++
		h.Add(stepOf(n))
	}
	last := held()
	if first-before > 400*kept || last-first > 64*kept {
		t.Errorf("%d bytes held after %d steps, %d after %d: want at most %d, and no more later", first-before, 4*kept, last-before, 20*kept, 400*kept)
	}
	runtime.KeepAlive(&h)
}
