package vector

import "math"

// geluScale is √(2/π) and geluCubic the factor of x³, both from gelu's approximation by
// tanh. geluNormal is 1/√(2π), the factor of the normal distribution's density.
const (
	geluScale  = 0.79788456080286535587989211986876
	geluCubic  = 0.044715
	geluNormal = 0.39894228040143267793994605993438
)

func gelu(x float64) float64 {
	return x * (0.5 * math.Erfc(-x/math.Sqrt2)) // erfc keeps digits that 1 + erf loses for small results
}

func geluSlope(x float64) float64 {
	return float64(0.5*math.Erfc(-x/math.Sqrt2)) + float64(x*geluNormal*math.Exp(-0.5*x*x))
}

// geluTanh uses the logistic function, keeping digits that 1 + tanh loses.
func geluTanh(x float64) float64 { return x * sigmoid(2*geluScale*(x+float64(geluCubic*x*x*x))) }

func geluTanhSlope(x float64) float64 {
	z := 2 * geluScale * (x + float64(geluCubic*x*x*x))
	slope := 2 * geluScale * (1 + float64(3*geluCubic*x*x))
	more := float64(x * sigmoid(z) * sigmoid(-z) * slope)
	return sigmoid(z) + more
}
