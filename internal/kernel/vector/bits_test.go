package vector

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

var update = flag.Bool("update", false, "write testdata/bits.txt with this machine's bits")

// TestBits compares the loops' bits with those that all machines agree on. It leaves out
// what the portable kernels compute with math.Exp, which differs between machines.
func TestBits(t *testing.T) {
	numbers.SameEverywhere(t, "testdata/bits.txt", *update, func(k kernel.Kind) map[string]string {
		all := map[string]string{}
		for i, l := range rowLoops {
			if k == kernel.Portable && !slices.Contains([]string{"scale_max", "max", "scaled", "adamw"}, l.name) {
				continue
			}
			r := rand.New(rand.NewPCG(29, uint64(i)))
			in := make([][]float32, l.in)
			for j := range in {
				in[j] = numbers.Drawn[float32](r, 2011)
			}
			out := make([][]float32, l.out)
			for j := range out {
				out[j] = make([]float32, 2011)
			}
			returned := l.do(k.Vectors(), out, in)
			results := [][]float64{{returned}}
			for _, y := range out {
				results = append(results, numbers.Wide(y))
			}
			if l.in == 1 && returned == 0 { // elementwise functions: special values too
				x := numbers.Sweep(100003)
				y := make([]float32, len(x))
				l.do(k.Vectors(), [][]float32{y}, [][]float32{x})
				results = append(results, numbers.Wide(y))
			}
			all[numbers.Family(k)+" "+l.name] = numbers.Digest(results...)
		}
		return all
	})
}
