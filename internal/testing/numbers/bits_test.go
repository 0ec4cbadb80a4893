package numbers

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestDrawn(t *testing.T) {
	for _, x := range Drawn[float32](rand.New(rand.NewPCG(33, 34)), 10000) {
		if a := math.Abs(float64(x)); !(a >= 0x1p-12 && a <= 0x1p5) {
			t.Fatalf("%v is not in range", x)
		}
	}
}
