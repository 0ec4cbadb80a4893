package norm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/internal/testing/numbers"
)

func TestScores(t *testing.T) {
	r := rand.New(rand.NewPCG(71, 72))
	var first map[string][]float64
	for k := range 120 {
		n, rows := 1+k%40, 1+k%3
		x := numbers.Normals[float32](r, n*rows)
		for i := range x {
			x[i] *= float32(math.Exp(float64(r.IntN(8) - 3)))
		}
		if k%7 == 3 && n > 1 {
			x[r.IntN(n)] = float32(math.Inf(-1))
		}
		first = map[string][]float64{}
		for name, l := range lineLoopsHere() {
			for what, f := range map[string]func(l *lineLoops, y []float64){
				"sigmoid":       func(l *lineLoops, y []float64) { sigmoids(l, y, x) },
				"softmax":       func(l *lineLoops, y []float64) { softmaxRows(l, y, x, n) },
				"sqrt_softplus": func(l *lineLoops, y []float64) { rootSoftplus(l, y, x) },
			} {
				y, want := make([]float64, len(x)+ScoreRoom+1), make([]float64, len(x)+ScoreRoom)
				y[len(x)+ScoreRoom] = 7
				f(l, y)
				f(nil, want)
				if y[len(x)+ScoreRoom] != 7 {
					t.Fatalf("%s: %s of %d writes too far", name, what, len(x))
				}
				for i := range x {
					if d := math.Abs(y[i] - want[i]); !(d <= 1e-15*want[i]+0x1p-160) {
						t.Fatalf("%s: %s of %v, element %d of %d, is %v, want %v", name, what, x[i], i, n, y[i], want[i])
					}
				}
				if l == nil {
					continue
				}
				if first[what] == nil {
					first[what] = y
				}
				for i := range x {
					if y[i] != first[what][i] {
						t.Fatalf("%s: %s of %v is %v, %v with others", name, what, x[i], y[i], first[what][i])
					}
				}
			}
		}
	}
}
