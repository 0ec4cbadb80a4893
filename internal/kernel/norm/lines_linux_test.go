package norm

import (
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// No loop touches what is behind the last element; if one did, this test would crash.
func TestLinesStayInside(t *testing.T) {
	r := rand.New(rand.NewPCG(81, 82))
	for _, n := range []int{1, 2, 7, 8, 9, 15, 16, 17, 31, 40, 63, 64, 65, 130} {
		x, y, z := numbers.AtGuard(t, numbers.Normals[float32](r, n)), numbers.AtGuard(t, numbers.Normals[float32](r, n)), numbers.AtGuard(t, make([]float32, n))
		for _, l := range lineLoopsHere() {
			difference(l, z, x, 1, 2)
			softmaxGrad(l, z, x, y, n)
			logSoftmaxGrad(l, z, x, y, 1)
			scores := numbers.AtGuard(t, make([]float64, n+ScoreRoom))
			sigmoids(l, scores, x)
			rootSoftplus(l, scores, x)
			softmaxRows(l, scores, x, n)
		}
	}
}
