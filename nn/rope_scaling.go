package nn

import (
	"math"

	"github.com/gomoe/gomoe/primitives"
)

// The types below return the parameters of primitives.RoPE for a model trained on short sequences and used
// on longer ones. Parameters out of range give frequencies that are not finite, which primitives.RoPE
// refuses. base and width are the fields Base and Width of primitives.RoPEOp; the width must be given.

// LinearRoPE divides all frequencies by Factor. Source: Chen and others, "Extending Context
// Window of Large Language Models via Positional Interpolation" (2023).
type LinearRoPE struct{ Factor float64 }

// RoPE returns the parameters for heads with `width` rotated elements.
func (s LinearRoPE) RoPE(base float64, width int) primitives.RoPEOp {
	f := primitives.RoPEOp{Base: base}.PairFrequencies(width)
	for i := range f {
		f[i] /= s.Factor
	}
	return primitives.RoPEOp{Base: base, Width: width, Frequencies: f}
}

// NTKRoPE raises the base, so that the lowest frequency is divided by Factor and the
// highest stays. If Original and Length are set, the factor is the one for sequences of
// Length tokens of a model that was trained on Original tokens:
// Factor·Length/Original - Factor + 1, and 1 for shorter sequences.
type NTKRoPE struct {
	Factor           float64
	Original, Length float64
}

// RoPE returns the parameters for heads with `width` rotated elements, more than 2.
func (s NTKRoPE) RoPE(base float64, width int) primitives.RoPEOp {
	if base == 0 {
		base = 10000
	}
	factor := s.Factor
	if s.Original > 0 {
		factor = factor*max(s.Length, s.Original)/s.Original - (factor - 1)
	}
	base *= math.Pow(factor, float64(width)/float64(width-2))
	return primitives.RoPEOp{Base: base, Width: width, Frequencies: primitives.RoPEOp{Base: base}.PairFrequencies(width)}
}

// YaRN divides low frequencies by Factor, leaves high ones, and goes evenly from one to the
// other between those that turn Slow and Fast times in Original tokens. Source: Peng and
// others, "YaRN: Efficient Context Window Extension of Large Language Models" (2023).
type YaRN struct {
	Factor   float64
	Original float64 // the length of the sequences that the model was trained on
	// Fast and Slow are numbers of turns; 0 means 32 and 1.
	Fast, Slow float64
	// Fractions lets the range of pairs begin and end between two pairs ("truncate": false).
	Fractions bool
	// Magnitude multiplies what is rotated. If it is 0, it is 0.1·ln(Factor) + 1 or, with MScale
	// and MScaleAllDim, the ratio of 0.1·MScale·ln(Factor) + 1 and the same of MScaleAllDim.
	Magnitude            float64
	MScale, MScaleAllDim float64
}

// RoPE returns the parameters for heads with `width` rotated elements.
func (y YaRN) RoPE(base float64, width int) primitives.RoPEOp {
	if base == 0 {
		base = 10000
	}
	fast, slow := y.Fast, y.Slow
	if fast == 0 {
		fast = 32
	}
	if slow == 0 {
		slow = 1
	}
	// pair returns the pair that turns so many times in Original tokens.
	pair := func(turns float64) float64 {
		if !(y.Original > 0) {
			return math.NaN()
		}
		return float64(width) * math.Log(y.Original/(turns*2*math.Pi)) / (2 * math.Log(base))
	}
	first, last := pair(fast), pair(slow)
	if !y.Fractions {
		first, last = math.Floor(first), math.Ceil(last)
	}
	first, last = max(first, 0), min(last, float64(width-1))
	if first == last {
		last += 0.001
	}
	f := primitives.RoPEOp{Base: base}.PairFrequencies(width)
	for i := range f {
		slowed := min(max((float64(i)-first)/(last-first), 0), 1)
		f[i] = float64(f[i]/y.Factor*slowed) + float64(f[i]*(1-slowed))
	}
	return primitives.RoPEOp{Base: base, Width: width, Frequencies: f, Magnitude: y.magnitude()}
}

func (y YaRN) magnitude() float64 {
	of := func(scale float64) float64 {
		if y.Factor <= 1 {
			return 1
		}
		return float64(0.1*scale*math.Log(y.Factor)) + 1
	}
	switch {
	case y.Magnitude != 0:
		return y.Magnitude
	case y.MScale != 0 && y.MScaleAllDim != 0:
		return of(y.MScale) / of(y.MScaleAllDim)
	}
	return of(1)
}

// Llama3RoPE divides frequencies by Factor that turn less than Low times in Original tokens,
// leaves those that turn more than High times, and goes from one to the other in between.
type Llama3RoPE struct{ Factor, Low, High, Original float64 }

// RoPE returns the parameters for heads with `width` rotated elements.
func (s Llama3RoPE) RoPE(base float64, width int) primitives.RoPEOp {
	f := primitives.RoPEOp{Base: base}.PairFrequencies(width)
	for i := range f {
		switch turns := s.Original * f[i] / (2 * math.Pi); {
		case turns < s.Low:
			f[i] /= s.Factor
		case turns <= s.High:
			kept := (turns - s.Low) / (s.High - s.Low)
			f[i] = float64((1-kept)*f[i]/s.Factor) + float64(kept*f[i])
		}
	}
	return primitives.RoPEOp{Base: base, Width: width, Frequencies: f}
}

// LongRoPE divides the frequency of pair i by Factors[i]. What is rotated is multiplied by
// Magnitude or, if it is 0, by √(1 + ln(Factor)/ln(Original)), where Factor is the ratio of
// the longest sequences to the Original length. Source: Ding and others, "LongRoPE" (2024).
type LongRoPE struct {
	Factors                     []float64
	Factor, Original, Magnitude float64
}

// RoPE returns the parameters for heads with `width` rotated elements. A number of
// factors other than width/2 is refused by RoPE.
func (s LongRoPE) RoPE(base float64, width int) primitives.RoPEOp {
	all := primitives.RoPEOp{Base: base}.PairFrequencies(width)
	f := make([]float64, len(s.Factors))
	for i := range f {
		f[i] = all[min(i, len(all)-1)] / s.Factors[i]
	}
	magnitude := s.Magnitude
	if magnitude == 0 && s.Factor > 1 {
		magnitude = math.Sqrt(1 + math.Log(s.Factor)/math.Log(s.Original))
	}
	return primitives.RoPEOp{Base: base, Width: width, Frequencies: f, Magnitude: magnitude}
}
