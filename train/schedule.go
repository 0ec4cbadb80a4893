package train

import "math"

// Schedule returns the learning rate of a step; the first step has number 1. A run that goes on calls it with the
// number of its step.
type Schedule func(step int) float64

// Constant returns a rate that stays.
func Constant(rate float64) Schedule { return func(int) float64 { return rate } }

// warmup rises in a line to peak over that many steps. Later steps have peak times after, which is given how much of the
// way from there to step total is done, from 0 to 1.
func warmup(peak float64, steps, total int, after func(done float64) float64) Schedule {
	return func(step int) float64 {
		if step <= steps {
			return peak * float64(step) / float64(steps)
		}
		return peak * after(min(1, float64(step-steps)/float64(max(total-steps, 1))))
	}
}

// Cosine rises to peak in warm steps, and falls as a cosine does to peak times floor in step total, where it stays.
func Cosine(peak float64, warm, total int, floor float64) Schedule {
	return warmup(peak, warm, total, func(done float64) float64 {
		return floor + float64((1-floor)*0.5*(1+math.Cos(math.Pi*done)))
	})
}

// Linear rises to peak in warm steps, and falls in a line to peak times floor in step total, where it stays.
func Linear(peak float64, warm, total int, floor float64) Schedule {
	return warmup(peak, warm, total, func(done float64) float64 { return 1 - float64((1-floor)*done) })
}

// WSD rises to peak in warm steps, is stable, and falls in a line in the last steps, of which there are decay, to peak
// times floor in step total, where it stays.
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
