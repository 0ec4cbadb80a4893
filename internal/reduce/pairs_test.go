package reduce

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/gomoe/gomoe/graph"
)

// inPairs is the definition of Pairs in a plain recursion.
func inPairs[E float32 | float64](xs [][]E, k int) E {
	if len(xs) == 1 {
		return xs[0][k]
	}
	half := 1
	for 2*half < len(xs) {
		half *= 2
	}
	return inPairs(xs[:half], k) + inPairs(xs[half:], k)
}

func checkPairs[E float32 | float64](t *testing.T, d graph.DType, size int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	var a Accumulator
	differ := false
	for n := 1; n <= 9; n++ {
		for _, skew := range []int{0, 1} { // bytes that buffers are off their alignment
			for in := -1; in < n; in++ { // dst is the src of that number
				const count = 3*BlockBytes/4 + 5
				srcs, values := make([][]byte, n), make([][]E, n)
				for i := range srcs {
					srcs[i] = Words(make([]uint64, count+1))[skew:][:count*size]
					values[i] = make([]E, count)
					for k := range values[i] {
						values[i][k] = E(rng.NormFloat64())
					}
					copy(srcs[i], bytesOf(values[i]))
				}
				dst := make([]byte, count*size)
				if in >= 0 {
					dst = srcs[in]
				}
				a.Into(dst, Pairs, d, srcs)
				got := make([]E, count)
				copy(bytesOf(got), dst)
				for k, x := range got {
					if want := inPairs(values, k); x != want {
						t.Fatalf("%s, %d buffers, dst %d, %d bytes off: element %d is %v, want %v", d, n, in, skew, k, x, want)
					}
					sum := values[0][k]
					for _, v := range values[1:] {
						sum += v[k]
					}
					differ = differ || x != sum
				}
			}
		}
	}
	if !differ {
		t.Errorf("%s: all sums in the order of ranks have the same bits, so that the test shows nothing", d)
	}
}

// Sums in pairs are those of a plain recursion, also where the result takes the place of any
// of the buffers, and where these are not aligned.
func TestPairs(t *testing.T) {
	checkPairs[float32](t, graph.F32, 4)
	checkPairs[float64](t, graph.F64, 8)

	// Other elements are added in the order of ranks.
	var a Accumulator
	xs := [][]byte{bytesOf([]int32{1}), bytesOf([]int32{2}), bytesOf([]int32{3})}
	dst := make([]byte, 4)
	a.Into(dst, Pairs, graph.I32, xs)
	if dst[0] != 6 {
		t.Errorf("1+2+3 is %v", dst)
	}
}

// bytesOf returns the memory of xs.
func bytesOf[E float32 | float64 | int32](xs []E) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&xs[0])), len(xs)*int(unsafe.Sizeof(xs[0])))
}
