package picture

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// ticks places about six marks at multiples of 1, 2 or 5 times a power of ten; gonum's own ticker often places two
// or three. It implements plot.Ticker.
type ticks struct {
	least float64 // minimum distance of two marks; 1 for counts
}

// Ticks implements plot.Ticker.
func (t ticks) Ticks(low, high float64) []plot.Tick {
	if !(low < high) || math.IsInf(high-low, 0) {
		return nil
	}
	rough := (high - low) / 6
	exponent := math.Floor(math.Log10(rough))
	power := math.Pow(10, exponent)
	step := 10 * power
	digits := -int(exponent) - 1
	for _, m := range []float64{1, 2, 5} {
		if m*power >= rough*0.85 {
			step, digits = m*power, -int(exponent)
			break
		}
	}
	if step < t.least {
		step, digits = t.least, 0
	}
	var out []plot.Tick
	// Adding 0 turns a negative zero into a positive one, which prints better. The bound ends the loop if step is too
	// small to change k·step.
	for k := math.Ceil(low/step) + 0; k*step <= high && len(out) < 20; k++ {
		label := strconv.FormatFloat(k*step, 'f', max(0, digits), 64)
		if step >= 1e6 {
			label = strconv.FormatFloat(k*step, 'g', 4, 64)
		}
		out = append(out, plot.Tick{Value: k * step, Label: label})
	}
	return out
}
