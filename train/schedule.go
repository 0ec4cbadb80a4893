package train

import "math"

// Schedule returns the learning rate of a step, counting from 1. A resumed run passes the number of its step.
type Schedule func(step int) float64

// Constant returns a constant learning rate.
func Constant(rate float64) Schedule { return func(int) float64 { return rate } }

// warmup rises linearly to peak over the given number of steps. From then on, the rate is peak times after(done),
// where done is the completed fraction of the remaining steps up to total, from 0 to 1.
func warmup(peak float64, steps, total int, after func(done float64) float64) Schedule {
	return func(step int) float64 {
		if step <= steps {
			return peak * float64(step) / float64(steps)
		}
		return peak * after(min(1, float64(step-steps)/float64(max(total-steps, 1))))
	}
}

// Cosine rises linearly to peak in warm steps, then decays along a cosine to peak times floor at step total, and
// stays there.
func Cosine(peak float64, warm, total int, floor float64) Schedule {
	return warmup(peak, warm, total, func(done float64) float64 {
		return floor + float64((1-floor)*0.5*(1+math.Cos(math.Pi*done)))
	})
}

// Linear rises linearly to peak in warm steps, then decays linearly to peak times floor at step total, and stays
// there.
func Linear(peak float64, warm, total int, floor float64) Schedule {
	return warmup(peak, warm, total, func(done float64) float64 { return 1 - float64((1-floor)*done) })
}

// WSD (warmup, stable, decay) rises linearly to peak in warm steps and stays there. In the last decay steps it
// falls linearly, reaching peak times floor at step total.
func WSD(peak float64, warm, decay, total int, floor float64) Schedule {
	falls := Linear(peak, total-decay, total, floor)
	return func(step int) float64 {
		switch {
		case step <= warm:
			return peak * float64(step) / float64(warm)
		case step <= total-decay:
			return peak
		}
		return falls(step)
	}
}
