package report

import "time"

// Limits of a History. A figure draws at most 1200 points of a loss.
const (
	kept = 8192
	tail = 20 // losses averaged by Loss
)

// History accumulates the reports of a run in memory that does not grow with the number of steps: totals, the last
// step, and at most 8192 points for a figure. The first 8192 steps are one point each. Whenever there are too many
// points, neighbouring points are merged in pairs. The zero History is a run without steps.
type History struct {
	Count   int // steps
	Tokens  int
	Drops   int
	Elapsed time.Duration
	Last    Step

	points []Step
	each   int // steps per complete point; 0 before the first step
	open   int // steps in the last point so far; equals each if the point is complete
	losses [tail]float64
}

// Add adds the next step.
func (h *History) Add(s Step) {
	h.losses[h.Count%tail] = s.Loss
	h.Count++
	h.Tokens += s.Tokens
	h.Drops += s.Drops
	h.Elapsed += s.Elapsed
	h.Last = s
	if h.each == 0 {
		h.each, h.open = 1, 1
	}
	if h.open < h.each {
		last := &h.points[len(h.points)-1]
		*last = joined(*last, s, h.open, 1)
		h.open++
		return
	}
	if len(h.points) == kept {
		for i := range kept / 2 {
			h.points[i] = joined(h.points[2*i], h.points[2*i+1], 1, 1)
		}
		clear(h.points[kept/2:]) // lets their loads be collected
		h.points = h.points[:kept/2]
		h.each *= 2
	}
	h.points, h.open = append(h.points, s), 1
}

// Points returns the points of a figure, in the order of their steps. A point is a step or, in a long run, the mean
// of several steps, numbered by the last of them. The caller must not modify the points.
func (h *History) Points() []Step { return h.points }

// Loss returns the mean loss of the last 20 steps, and the number of steps averaged.
func (h *History) Loss() (mean float64, of int) {
	of = min(h.Count, tail)
	for i := h.Count - of; i < h.Count; i++ {
		mean += h.losses[i%tail] / float64(of)
	}
	return mean, of
}

// joined merges two consecutive points that stand for m and n steps. If either loss is not finite, the result's is
// not finite either.
func joined(a, b Step, m, n int) Step {
	wa, wb := float64(m)/float64(m+n), float64(n)/float64(m+n)
	p := b
	p.Loss, p.Aux, p.LR, p.Norm = wa*a.Loss+wb*b.Loss, wa*a.Aux+wb*b.Aux, wa*a.LR+wb*b.LR, wa*a.Norm+wb*b.Norm
	if b.HeldOut == 0 {
		p.HeldOut = a.HeldOut
	}
	p.Tokens, p.Drops, p.Elapsed = a.Tokens+b.Tokens, a.Drops+b.Drops, a.Elapsed+b.Elapsed
	p.Compute, p.Exchange, p.Waiting = a.Compute+b.Compute, a.Exchange+b.Exchange, a.Waiting+b.Waiting
	if len(a.Load) == len(b.Load) { // else the figure reports the differing step
		p.Load = make([]float64, len(b.Load))
		for e := range p.Load {
			p.Load[e] = wa*a.Load[e] + wb*b.Load[e]
		}
	}
	return p
}
