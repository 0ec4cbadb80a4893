package norm

import (
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// lineLoopsHere returns the loops of this processor by the names of their kinds.
func lineLoopsHere() map[string]*lineLoops {
	have := map[string]*lineLoops{"portable": nil}
	for _, k := range kernel.Available() {
		if l := lineLoopsFor(k.Vectors()); l != nil {
			have[k.String()] = l
		}
	}
	return have
}

func TestLines(t *testing.T) {
	r := rand.New(rand.NewPCG(59, 60))
	for n := range 100 {
		x, y := numbers.Normals[float32](r, n), numbers.Normals[float32](r, n)
		for name, l := range lineLoopsHere() {
			got, want := make([]float32, n), make([]float32, n)
			difference(l, got, x, 0.3, 1.7)
			difference(nil, want, x, 0.3, 1.7)
			numbers.SameBits(t, name+" difference", got, want)
			for rows := 1; rows <= n; rows++ {
				if n%rows == 0 {
					softmaxGrad(l, got, x, y, n/rows)
					softmaxGrad(nil, want, x, y, n/rows)
					numbers.SameBits(t, name+" softmax_grad", got, want)
				}
			}
			logSoftmaxGrad(l, got, x, y, 1.3)
			logSoftmaxGrad(nil, want, x, y, 1.3)
			numbers.SameBits(t, name+" log_softmax_grad", got, want)
		}
	}
}
