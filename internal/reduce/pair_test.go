package reduce

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// bits returns an element's bits.
func bits(b []byte) uint64 {
	var w [8]byte
	copy(w[:], b)
	return binary.LittleEndian.Uint64(w[:])
}

func value(d graph.DType, u uint64) float64 {
	switch d {
	case graph.F64:
		return math.Float64frombits(u)
	case graph.F32:
		return float64(math.Float32frombits(uint32(u)))
	case graph.F16:
		return float64(array.Half(u).Float32())
	case graph.BF16:
		return float64(array.Brain(u).Float32())
	case graph.I32:
		return float64(int32(u))
	case graph.I64:
		return float64(int64(u))
	}
	return float64(u)
}

// pick reports whether op takes the later of two elements.
func pick(op Op, a, b float64) bool {
	switch op {
	case Greater:
		return !(a > b)
	case Less:
		return !(a < b)
	case Above:
		return b > a || b != b
	case Below:
		return b < a || b != b
	case Max:
		return math.Max(a, b) == b && (b != a || math.Signbit(a)) || b != b
	}
	return math.Min(a, b) == b && (b != a || math.Signbit(b)) || b != b
}

// sum returns the bits of a sum, computed in another way than package reduce does.
func sum(d graph.DType, a, b uint64) uint64 {
	switch x := value(d, a) + value(d, b); d {
	case graph.F64:
		return math.Float64bits(x)
	case graph.F32:
		return uint64(math.Float32bits(float32(x)))
	case graph.F16:
		return uint64(array.HalfOf(float32(value(d, a)) + float32(value(d, b))))
	case graph.BF16:
		return uint64(array.BrainOf(float32(value(d, a)) + float32(value(d, b))))
	case graph.Bool:
		return a | b
	}
	return (a + b) & (1<<(8*d.Size()-1)<<1 - 1)
}

// Every operation gives the bits that its comment states, for every type, in aligned and
// other memory, and does not change the other operand.
func TestPair(t *testing.T) {
	var acc Accumulator
	r := rand.New(rand.NewPCG(1, 2))
	for _, d := range []graph.DType{graph.F64, graph.F32, graph.F16, graph.BF16, graph.I64, graph.I32, graph.U32, graph.U8, graph.Bool} {
		for op := Sum; op <= Below; op++ {
			for _, skew := range []int{0, 1, 4} {
				const count = 3000
				size := d.Size()
				dst, src := make([]byte, count*size+8)[skew:][:count*size], make([]byte, count*size+16)[2*skew:][:count*size]
				for i := range dst {
					dst[i], src[i] = byte(r.Uint32()), byte(r.Uint32())
					if d == graph.Bool {
						dst[i], src[i] = dst[i]&1, src[i]&1
					}
				}
				if d.IsFloat() { // 0 and -0 are equal, so only their order decides
					for i, b := range []byte{0x80, 0, 0, 0x80} {
						to := [][]byte{dst, src, dst, src}[i][i/2*size:][:size]
						clear(to)
						to[size-1] = b
					}
				}
				before, other := string(dst), string(src)
				acc.Pair(dst, op, d, src)
				if string(src) != other {
					t.Fatalf("%d of %s: the other operand was written", op, d)
				}
				for i := range count {
					a, b, got := bits([]byte(before)[i*size:][:size]), bits(src[i*size:][:size]), bits(dst[i*size:][:size])
					x, y := value(d, a), value(d, b)
					want := a
					switch {
					case op == Sum:
						want = sum(d, a, b)
					case d == graph.I64:
						if later := int64(b) > int64(a) == (op == Max || op == Greater || op == Above); later {
							want = b
						}
					case pick(op, x, y):
						want = b
					}
					// The bits of a NaN matter only where one of the elements is chosen.
					if op < Greater && math.IsNaN(value(d, want)) && math.IsNaN(value(d, got)) && d.IsFloat() {
						continue
					}
					if op < Greater && op > Sum && math.IsNaN(x) && d.IsFloat() && math.IsNaN(value(d, got)) {
						continue
					}
					if got != want {
						t.Fatalf("operation %d of %s, skew %d: element %d of %#x and %#x is %#x, want %#x", op, d, skew, i, a, b, got, want)
					}
				}
			}
		}
	}
}

// Pairs of 2 bytes are rounded each time: 256 + 1 + 1 in bf16 stays 256, where one
// rounding would give 258.
func TestPairRoundsEveryTime(t *testing.T) {
	var acc Accumulator
	total := binary.NativeEndian.AppendUint16(nil, uint16(array.BrainOf(256)))
	one := binary.NativeEndian.AppendUint16(nil, uint16(array.BrainOf(1)))
	acc.Pair(total, Sum, graph.BF16, one)
	acc.Pair(total, Sum, graph.BF16, one)
	if x := array.Brain(binary.NativeEndian.Uint16(total)).Float32(); x != 256 {
		t.Errorf("256 + 1 + 1 is %v, want 256", x)
	}
}

func TestPairAllocates(t *testing.T) {
	var acc Accumulator
	dst, src := make([]byte, 10001)[1:], make([]byte, 10000)
	acc.Pair(dst, Sum, graph.F16, src)
	if n := testing.AllocsPerRun(10, func() { acc.Pair(dst, Sum, graph.F16, src) }); n > 0 {
		t.Errorf("a pair allocates %v times", n)
	}
}

func TestOverlap(t *testing.T) {
	b := make([]byte, 8)
	for _, c := range []struct {
		a, b          []byte
		overlap, same bool
	}{{b[:4], b[4:], false, false}, {b[:5], b[4:], true, false}, {b, b[:1], true, true}, {b[:0], b, false, true}, {b[1:2], b, true, false}} {
		if Overlap(c.a, c.b) != c.overlap || Overlap(c.b, c.a) != c.overlap || Same(c.a, c.b) != c.same {
			t.Errorf("%d and %d bytes: %v %v", len(c.a), len(c.b), Overlap(c.a, c.b), Same(c.a, c.b))
		}
	}
}
