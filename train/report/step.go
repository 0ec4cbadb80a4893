package report

import (
	"math"
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
