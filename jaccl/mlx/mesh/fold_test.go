package mesh

import (
	"math"
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// Every reduction of every type, at aligned and other places, against one that goes
// through f64 and int64, an element at a time.
func TestFold(t *testing.T) {
	var f folder
	for _, d := range programTypes {
		for op, name := range map[reduction]string{sum: "all_sum", largest: "all_max", smallest: "all_min"} {
			for _, skew := range []int{0, 1, 4} {
				const count = 3000
				size := count * d.Size()
				total, in := make([]byte, size+8)[skew:][:size], make([]byte, size+16)[2*skew:][:size]
				copy(total, programInput(d, 1, 0, count, false))
				copy(in, programInput(d, 2, 1, count, false))
				if d.IsFloat() { // what the order of comparisons tells apart
					nan, zero, minus := special(d)
					for i, pair := range [][2]uint64{{nan, 0x11}, {0x11, nan}, {zero, minus}, {minus, zero}} {
						put(total[i*d.Size():], d, pair[0])
						put(in[i*d.Size():], d, pair[1])
					}
				}
				var want []uint64
				for at := 0; at < size; at += d.Size() {
					a, b := get(total[at:], d), get(in[at:], d)
					w := reduceTwo(name, d, a, b)
					if d == graph.Bool && name == "all_min" {
						w = a & b
					}
					want = append(want, w)
				}
				before := string(in)
				f.fold(op, d, total, in)
				for i, w := range want {
					got := get(total[i*d.Size():], d)
					if mask := uint64(1)<<(8*d.Size()-1)<<1 - 1; got != w&mask && !(name == "all_sum" && d.IsFloat() && i < 2) {
						t.Fatalf("%s of %s, skew %d: element %d is %#x, want %#x", name, d, skew, i, got, w)
					}
				}
				if string(in) != before {
					t.Fatalf("%s of %s: the other operand was written", name, d)
				}
			}
		}
	}
}

// special returns the bits of a NaN, of zero and of minus zero.
func special(d graph.DType) (nan, zero, minus uint64) {
	bits := func(x float64) uint64 {
		switch d {
		case graph.F64:
			return math.Float64bits(x)
		case graph.F32:
			return uint64(math.Float32bits(float32(x)))
		case graph.BF16:
			return uint64(array.BrainOf(float32(x)))
		}
		return uint64(array.HalfOf(float32(x)))
	}
	return bits(math.NaN()), bits(0), bits(math.Copysign(0, -1))
}

// A 16-bit sum of three rounds twice: 256 + 1 + 1 in bf16 stays 256, where one rounding
// would give 258.
func TestFoldRoundsEveryTime(t *testing.T) {
	var f folder
	total := make([]byte, 2)
	put(total, graph.BF16, uint64(array.BrainOf(256)))
	one := make([]byte, 2)
	put(one, graph.BF16, uint64(array.BrainOf(1)))
	f.fold(sum, graph.BF16, total, one)
	f.fold(sum, graph.BF16, total, one)
	if x := array.Brain(get(total, graph.BF16)).Float32(); x != 256 {
		t.Errorf("256 + 1 + 1 is %v, want 256", x)
	}
}
