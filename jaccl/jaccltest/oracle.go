package jaccltest

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sort"

	"github.com/gomoe/gomoe/graph"
)

// format is an IEEE-like format of 16 bits. It is computed from its definition, not with the
// bit tricks of the code under test.
type format struct {
	mantissa int // bits
	bias     int
	finite   []float64 // the finite values with the bits 0, 1, 2 and so on, ascending
}

var (
	f16  = newFormat(10, 15)
	bf16 = newFormat(7, 127)
)

func newFormat(mantissa, bias int) *format {
	f := &format{mantissa: mantissa, bias: bias}
	for h := 0; h>>mantissa < 2*bias+1; h++ {
		e, m := h>>mantissa, float64(h&(1<<mantissa-1))
		if e == 0 {
			e = 1
		} else {
			m += math.Ldexp(1, mantissa)
		}
		f.finite = append(f.finite, math.Ldexp(m, e-bias-mantissa))
	}
	return f
}

func (f *format) decode(h uint16) float32 {
	x := math.Inf(1)
	if m := int(h & 0x7fff); m < len(f.finite) {
		x = f.finite[m]
	}
	return float32(math.Copysign(x, float64(1-int(h>>15)*2)))
}

// encode returns the bits of the number nearest to x; of two nearest numbers, the one with
// even bits.
func (f *format) encode(x float32) uint16 {
	a := math.Abs(float64(x))
	// All numbers with lower exponents are below a.
	_, e := math.Frexp(a)
	low := min(max(e-1+f.bias, 0), 2*f.bias) << f.mantissa
	switch {
	case a == 0:
		low = 0
	case math.IsInf(a, 0):
		low = 2 * f.bias << f.mantissa
	}
	up := low + sort.SearchFloat64s(f.finite[low:min(low+1<<f.mantissa+1, len(f.finite))], a)
	if up == len(f.finite) { // the next number would be a step above the last
		next := 2*f.finite[up-1] - f.finite[up-2]
		if a < (f.finite[up-1]+next)/2 {
			up--
		}
	} else if up > 0 {
		below, above := a-f.finite[up-1], f.finite[up]-a
		if below < above || below == above && up%2 == 1 {
			up--
		}
	}
	if math.Signbit(float64(x)) {
		up |= 0x8000
	}
	return uint16(up)
}

// values returns n elements that member i contributes. Floats differ in magnitude so much
// that the order of a sum shows in its bits. Among them are zeros of both signs,
// infinities of one sign, numbers that are subnormal in an f16, and the largest f16
// numbers.
func values(d graph.DType, n, seed, i int) []byte {
	rng := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
	size := d.Size()
	out := make([]byte, n*size)
	for k := range n {
		put(out[k*size:], d, rng.Uint64())
		if !d.IsFloat() {
			continue
		}
		x := math.Ldexp(2*rng.Float64()-1, rng.IntN(16)-8)
		switch (k + seed) % 19 {
		case 3:
			x = math.Copysign(0, -1)
		case 5:
			x = 0
		case 7:
			if i == 1 {
				x = math.Inf(1)
			}
		case 11: // subnormal, as half of an f16
			x = math.Ldexp(float64(rng.IntN(2048)-1024), -24)
		case 13: // the largest f16 and a number rounding up to infinity
			x = 30000 + 6000*rng.Float64()
		}
		putFloat(out[k*size:], d, x)
	}
	if d == graph.Bool {
		for k := range out {
			out[k] &= 1
		}
	}
	return out
}

// integers returns n floats from -8 to 8: the sums of 8 members are exact in every type.
func integers(d graph.DType, n, seed, i int) []byte {
	rng := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
	out := make([]byte, n*d.Size())
	for k := range n {
		putFloat(out[k*d.Size():], d, float64(rng.IntN(17)-8))
	}
	return out
}

func put(b []byte, d graph.DType, bits uint64) {
	switch d.Size() {
	case 1:
		b[0] = byte(bits)
	case 2:
		binary.NativeEndian.PutUint16(b, uint16(bits))
	case 4:
		binary.NativeEndian.PutUint32(b, uint32(bits))
	case 8:
		binary.NativeEndian.PutUint64(b, bits)
	}
}

func get(b []byte, d graph.DType) uint64 {
	switch d.Size() {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.NativeEndian.Uint16(b))
	case 4:
		return uint64(binary.NativeEndian.Uint32(b))
	}
	return binary.NativeEndian.Uint64(b)
}

func putFloat(b []byte, d graph.DType, x float64) {
	switch d {
	case graph.F64:
		put(b, d, math.Float64bits(x))
	case graph.F32:
		put(b, d, uint64(math.Float32bits(float32(x))))
	case graph.F16:
		put(b, d, uint64(f16.encode(float32(x))))
	case graph.BF16:
		put(b, d, uint64(bf16.encode(float32(x))))
	}
}

// total reduces the members' buffers, one element at a time.
func total(op string, d graph.DType, srcs [][][]byte) []byte {
	out := make([]byte, len(srcs[0][0]))
	bits := make([]uint64, len(srcs))
	for at := 0; at < len(out); at += d.Size() {
		for i, s := range srcs {
			bits[i] = get(s[0][at:], d)
		}
		switch op {
		case "all_max":
			put(out[at:], d, extreme(d, bits, 1))
		case "all_min":
			put(out[at:], d, extreme(d, bits, -1))
		default:
			put(out[at:], d, add(d, bits))
		}
	}
	return out
}

// extreme returns the largest element if sign is 1, and the smallest if sign is -1.
func extreme(d graph.DType, bits []uint64, sign float64) uint64 {
	best := bits[0]
	for _, b := range bits[1:] {
		x, y := sign*float(d, best), sign*float(d, b)
		// A float64 cannot distinguish all elements of i64, so these are compared as
		// integers.
		if d == graph.I64 {
			if sign > 0 && int64(b) > int64(best) || sign < 0 && int64(b) < int64(best) {
				best = b
			}
		} else if y > x || y == x && math.Signbit(x) && !math.Signbit(y) {
			best = b
		}
	}
	return best
}

// float returns the value of an element.
func float(d graph.DType, bits uint64) float64 {
	switch d {
	case graph.F64:
		return math.Float64frombits(bits)
	case graph.F32:
		return float64(math.Float32frombits(uint32(bits)))
	case graph.F16:
		return float64(f16.decode(uint16(bits)))
	case graph.BF16:
		return float64(bf16.decode(uint16(bits)))
	case graph.I32:
		return float64(int32(bits))
	}
	return float64(bits)
}

// add returns the sum of the elements in their order. Integers of every size are added modulo
// 2^64; put keeps the low bits.
func add(d graph.DType, bits []uint64) uint64 {
	switch d {
	case graph.F64:
		x := math.Float64frombits(bits[0])
		for _, b := range bits[1:] {
			x += math.Float64frombits(b)
		}
		return math.Float64bits(x)
	case graph.F32, graph.F16, graph.BF16:
		decode := func(b uint64) float32 { return math.Float32frombits(uint32(b)) }
		encode := func(x float32) uint64 { return uint64(math.Float32bits(x)) }
		if f := map[graph.DType]*format{graph.F16: f16, graph.BF16: bf16}[d]; f != nil {
			decode = func(b uint64) float32 { return f.decode(uint16(b)) }
			encode = func(x float32) uint64 { return uint64(f.encode(x)) }
		}
		x := decode(bits[0])
		for _, b := range bits[1:] {
			x += decode(b)
		}
		return encode(x)
	}
	var x uint64
	for _, b := range bits {
		x += b
	}
	return x
}
