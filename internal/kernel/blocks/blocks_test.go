package blocks

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/numbers"
	"github.com/gomoe/gomoe/quant"
)

// randomBlocks returns rows of random bytes whose scales are finite numbers.
func randomBlocks(r *rand.Rand, d graph.DType, rows, k int) []byte {
	n, size := d.Block()
	w := make([]byte, rows*k/n*size)
	for i := range w {
		w[i] = byte(r.Uint32())
	}
	for b := w; len(b) > 0; b = b[size:] {
		switch d {
		case graph.MXFP4:
			b[0] = byte(118 + r.IntN(10))
		case graph.Q6_K:
			b[209] = b[209]&0x83 | 0x20
		case graph.Q2_K:
			b[81], b[83] = b[81]&0x83|0x20, b[83]&0x83|0x20
		case graph.Q3_K:
			b[109] = b[109]&0x83 | 0x20
		case graph.Q4_K, graph.Q5_K, graph.Q4_1, graph.Q5_1:
			b[1], b[3] = b[1]&0x83|0x20, b[3]&0x83|0x20
		default:
			b[1] = b[1]&0x83 | 0x20
		}
	}
	return w
}

func quantRows(d graph.DType, k int, x []float32) []byte {
	rows := make([]byte, len(x)/max(k, 1)*RowBytes(d, k))
	Round(d, k, rows, x)
	return rows
}

// The product of rounded rows is as near to the product of the numbers as the rounding allows.
func TestMultiplyIsAProduct(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, d := range quant.Types() {
		const m, n, k = 5, 7, 1024
		x, w := numbers.Normals[float32](r, m*k), randomBlocks(r, d, n, k)
		wide := make([]float32, n*k)
		require.NoError(t, quant.Dequantize(wide, d, w))
		y := make([]float32, m*n)
		Multiply(d, m, n, k, quantRows(d, k, x), w, nil, y, n, 1)
		for i := range m {
			for j := range n {
				want, xx, ww := 0.0, 0.0, 0.0
				for p := range k {
					a, b := float64(x[i*k+p]), float64(wide[j*k+p])
					want, xx, ww = want+a*b, xx+a*a, ww+b*b
				}
				// A rounding error is uniform within half a step of max|x|/127, and
				// max|x| is about 3: 0.007 of |x|.
				if e := math.Abs(float64(y[i*n+j]) - want); e > 4*0.007*math.Sqrt(xx*ww/k) {
					t.Errorf("%s: element %d,%d is %v, want %v: off by %.4f of the size", d, i, j, y[i*n+j], want, e/math.Sqrt(xx*ww/k))
				}
			}
		}
	}
}

// Every kernel has the bits of the portable one, for all numbers of rows, of
// blocks and of columns, and writes what it should and nothing else.
func TestQuantKernelsAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, d := range quant.Types() {
		block, size := d.Block()
		for _, c := range [][3]int{{1, 1, 1}, {1, 4, 8}, {1, 5, 3}, {1, 9, 5}, {1, 13, 8}, {2, 9, 4}, {2, 4, 8}, {3, 3, 5}, {3, 8, 4}, {4, 8, 2}, {5, 2, 9}, {6, 4, 4}, {7, 5, 3}, {8, 4, 1}, {65, 9, 4}, {66, 5, 2}, {9, 6, 13}, {70, 3, 1}, {0, 3, 1}, {2, 0, 1}, {2, 3, 0}} {
			m, n, k := c[0], c[1], c[2]*block
			x := numbers.Normals[float32](r, m*k)
			for i := range x {
				x[i] *= float32(math.Exp(r.NormFloat64()))
			}
			if m > 1 && k > 0 {
				x[r.IntN(k)] = float32(math.NaN())
				x[k+r.IntN(k)] = float32(math.Inf(-1))
				clear(x[(m-1)*k:][:block])
			}
			// Rows begin at odd addresses, as the sizes of blocks cause it.
			w := append(make([]byte, 3, 3+n*k/block*size), randomBlocks(r, d, n, k)...)[3:]
			if r.IntN(2) == 0 && len(w) > 0 {
				for i := range w[:size] {
					w[i] = 0xff // all bits, and scales that are NaN
				}
			}
			rows := quantRows(d, k, x)
			for _, transposed := range []bool{false, true} {
				yrs, ycs, length := n+2, 1, m*(n+2)
				if transposed {
					yrs, ycs, length = 1, m+1, n*(m+1)
				}
				want := numbers.Normals[float32](r, length)
				for _, v := range sets() {
					got := append([]float32(nil), want...)
					v.set.multiply(d, m, n, k, rows, w, nil, got, yrs, ycs)
					for i := range m {
						for j := range n {
							var sum float32
							if k > 0 {
								sum = quantDot(d, 0, k/block, rows[i*RowBytes(d, k):], w[j*k/block*size:])
							}
							sameQuant(t, fmt.Sprintf("%s %s %v at %d,%d", v.name, d, c, i, j), got[i*yrs+j*ycs], sum)
							got[i*yrs+j*ycs] = want[i*yrs+j*ycs]
						}
					}
					numbers.SameBits(t, fmt.Sprintf("%s %s %v: what is between elements", v.name, d, c), got, want)
				}
			}
		}
	}
}

// sameQuant compares bits. All NaNs count as the same.
func sameQuant(t *testing.T, what string, got, want float32) {
	t.Helper()
	if math.Float32bits(got) != math.Float32bits(want) && (got == got || want == want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// The largest sums, of elements that are all as large as possible, do not overflow.
func TestQuantLargest(t *testing.T) {
	for _, d := range quant.Types() {
		block, size := d.Block()
		k := 4 * 256
		for _, fill := range []byte{0xff, 0x7f, 0x80, 0x00, 0x77, 0x88} {
			w := make([]byte, 4*k/block*size)
			for i := range w {
				w[i] = fill
			}
			for b := w; len(b) > 0; b = b[size:] {
				for _, at := range map[graph.DType][]int{graph.Q8_0: {0}, graph.Q4_K: {0, 2}, graph.Q6_K: {208}, graph.Q2_K: {80, 82}, graph.IQ2_XXS: {0},
					graph.Q4_0: {0}, graph.Q4_1: {0, 2}, graph.Q5_0: {0}, graph.Q5_1: {0, 2}, graph.Q3_K: {108}, graph.Q5_K: {0, 2}, graph.IQ3_XXS: {0}, graph.IQ4_NL: {0}, graph.IQ4_XS: {0}}[d] {
					b[at], b[at+1] = 0, 0x3c // 1
				}
				if d == graph.MXFP4 {
					b[0] = 128
				}
			}
			wide := make([]float32, 4*k)
			require.NoError(t, quant.Dequantize(wide, d, w))
			for _, sign := range []float32{1, -1} {
				x := make([]float32, k)
				want := make([]float64, 4)
				for i := range x {
					x[i] = 127 * sign
					if wide[i] < 0 {
						x[i] = -x[i]
					}
					for j := range want {
						want[j] += float64(x[i]) * float64(wide[j*k+i])
					}
				}
				for _, v := range sets() {
					y := make([]float32, 4)
					v.set.multiply(d, 1, 4, k, quantRows(d, k, x), w, nil, y, 4, 1)
					for j := range y {
						if math.Abs(float64(y[j])-want[j]) > 1e-6*math.Abs(want[j]) {
							t.Errorf("%s %s of bytes %#x: %v, want %v", v.name, d, fill, y[j], want[j])
						}
					}
				}
			}
		}
	}
}

// Every kernel rounds as the portable one.
func TestRoundAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	special := []float32{0, float32(math.Copysign(0, -1)), 1e-45, 1e-40, 1e-38, 3.4e38, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 0.5, -0.5, 1.5}
	for _, d := range quant.Types() {
		block, _ := d.Block()
		for _, blocks := range []int{0, 1, 2, 3, 4, 5, 7, 8, 12} {
			for m := range 4 {
				k := blocks * block
				x := numbers.Normals[float32](r, m*k)
				for i := range x {
					switch r.IntN(10) {
					case 0: // ties, where the largest is 127
						x[i] = float32(r.IntN(509)-254) / 2
					case 1:
						if i/block%3 == 0 {
							x[i] = special[r.IntN(len(special))]
						}
					}
				}
				for i := 0; i+block <= len(x); i += block {
					switch r.IntN(4) {
					case 0:
						x[i+r.IntN(block)] = 127
					case 1:
						s := float32(math.Exp(60 * r.NormFloat64()))
						for j := range x[i : i+block] {
							x[i+j] *= s
						}
					}
				}
				var portable *set
				want := make([]byte, m*RowBytes(d, k)+1)
				portable.quantizeRows(d, k, want, x)
				for _, v := range sets() {
					got := make([]byte, m*RowBytes(d, k)+1)
					v.set.quantizeRows(d, k, got, x)
					for i := range want {
						if got[i] != want[i] {
							t.Fatalf("%s %s, %d rows of %d: byte %d is %d, want %d", v.name, d, m, k, i, got[i], want[i])
						}
					}
				}
			}
		}
	}
}

func TestQuantizeRow(t *testing.T) {
	row := func(d graph.DType, x ...float32) []byte {
		x = append(x, make([]float32, 256-len(x))...)
		return quantRows(d, 256, x)
	}
	b := row(graph.Q8_0, 127, -127, 2.5, 3.5, -0.5, 126.5, 1.49)
	for i, want := range []int8{127, -127, 2, 4, 0, 126, 1, 0} {
		if int8(b[i]) != want {
			t.Errorf("element %d is %d, want %d", i, int8(b[i]), want)
		}
	}
	if got := float(b[quantGroupScale:]); got != 1 {
		t.Errorf("the scale is %v, want 1", got)
	}
	for _, x := range []float32{0, 1e-45, 1e-40, -1e-38} {
		if b := row(graph.Q6_K, x, 1e-46); b[0] != 0 || float(b[quantSuperScale:]) != 0 {
			t.Errorf("%v is %d·%v, want zeros", x, b[0], float(b[quantSuperScale:]))
		}
	}
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -math.NaN()} {
		b := row(graph.Q6_K, 1, float32(x))
		if s := float(b[quantSuperScale:]); s == s || b[0] != 0 {
			t.Errorf("beside %v the scale is %v and 1 is %d, want NaN and 0", x, s, b[0])
		}
	}
	if x := float32(3e38); int8(row(graph.Q4_K, x, -x)[1]) != -127 {
		t.Error("-3e38 beside 3e38 is not -127")
	}
}
