package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Step holds the figures of one training step.
type Step struct {
	Index   int           // number of steps completed, including this one: 1 for the first, Total for the last
	Total   int           // steps of the whole run
	Loss    float64       // mean cross entropy of the step, nats per byte; may be NaN or infinite
	HeldOut float64       // the same on held-out text; 0 if not measured after this step
	Aux     float64       // load balancing loss
	LR      float64       // learning rate
	Norm    float64       // 2-norm of the gradient before clipping
	Tokens  int           // tokens of the step, over all ranks
	Elapsed time.Duration // duration of the step
	// Compute, Exchange and Waiting break down Elapsed, averaged over the ranks of this process. Compute is the time
	// of kernels. Exchange is the time of exchanges between ranks, including waiting for other ranks to arrive.
	// Waiting is the time spent waiting for overlapped exchanges, and for a device. All are 0 if not measured.
	Compute, Exchange, Waiting time.Duration
	Load                       []float64 // per expert, its share of the routed tokens, mean over layers; sums to 1
	Drops                      int       // routed tokens exceeding capacity, over all layers
}

// PictureBytes is the approximate memory for drawing a Figure of a thousand steps: its pixels and the encoded file.
const PictureBytes = 27 << 20

// Figure is the content of a run's picture; package picture draws it. All steps have the same number of experts.
type Figure struct {
	Title   string
	Steps   []Step  // in order of Index
	Unigram float64 // entropy of the text's byte frequencies, nats per byte; 0 omits the line
}

// smoothing is the weight of the past in smoothed losses. It averages over about the last 20 steps, hiding the
// noise of batches but showing a change of slope.
const smoothing = 0.95

// Smoother is an exponential moving mean without bias towards its start: its value is Σ w^(n-i) x_i / Σ w^(n-i)
// over the finite x seen so far.
type Smoother struct{ sum, weight float64 }

// Add adds x and returns the mean, or NaN if no x was finite so far.
func (s *Smoother) Add(x float64) float64 {
	if finite(x) {
		s.sum = smoothing*s.sum + (1-smoothing)*x
		s.weight = smoothing*s.weight + (1 - smoothing)
	}
	return s.sum / s.weight // 0/0 is NaN
}

// finite also returns false for numbers out of the range of float32: no real loss is that large, and differences of
// such numbers overflow in a plot.
func finite(x float64) bool { return math.Abs(x) <= math.MaxFloat32 }

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

// Experts writes a table of the tokens routed to every expert, tokens[layer][expert]. Each layer has a row with the
// tokens of each expert, or with the least, the median and the most if there are more than 16 experts; max/mean,
// which is 1 for an even load and the number of experts if one receives everything; and dead, the number of experts
// without tokens, with a list of them. It returns an error of the writer, or an error if layers differ in their
// number of experts.
func Experts(w io.Writer, tokens [][]int64) error {
	if len(tokens) == 0 || len(tokens[0]) == 0 {
		_, err := fmt.Fprintln(w, "no experts")
		return wrap(err)
	}
	experts := len(tokens[0])
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells []string, last string) {
		// tabwriter aligns only cells ending with a tab; the last cell is left alone.
		fmt.Fprintf(tw, "%s\t%s\n", strings.Join(cells, "\t"), strings.TrimRight("  "+last, " "))
	}
	head := []string{"layer", "tokens"}
	if experts > listed {
		head = append(head, "least", "median", "most")
	} else {
		for e := range experts {
			head = append(head, fmt.Sprint("e", e))
		}
	}
	row(append(head, "max/mean"), "dead")
	for layer, counts := range tokens {
		if len(counts) != experts {
			return fmt.Errorf("report: experts: layer %d has %d experts, want %d as layer 0", layer, len(counts), experts)
		}
		var sum int64
		for _, n := range counts {
			sum += n
		}
		cells := []string{fmt.Sprint(layer), fmt.Sprint(sum)}
		if experts > listed {
			sorted := slices.Sorted(slices.Values(counts))
			cells = append(cells, fmt.Sprint(sorted[0]), fmt.Sprint(sorted[experts/2]), fmt.Sprint(sorted[experts-1]))
		} else {
			for _, n := range counts {
				cells = append(cells, fmt.Sprint(n))
			}
		}
		imbalance := "-" // no tokens
		if sum > 0 {
			imbalance = fmt.Sprintf("%.2f", float64(slices.Max(counts))*float64(experts)/float64(sum))
		}
		row(append(cells, imbalance), dead(counts))
	}
	return wrap(tw.Flush())
}

// dead lists the experts without tokens: "2: e3 e7", at most 8 of them.
func dead(counts []int64) string {
	var names []string
	for e, n := range counts {
		if n == 0 {
			names = append(names, fmt.Sprint("e", e))
		}
	}
	if len(names) == 0 {
		return "0"
	}
	const shown = 8
	list := strings.Join(names[:min(shown, len(names))], " ")
	if len(names) > shown {
		list += " ..."
	}
	return fmt.Sprintf("%d: %s", len(names), list)
}

func wrap(err error) error {
	if err != nil {
		return fmt.Errorf("report: experts: %w", err)
	}
	return nil
}
