package kernel

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/quant"
)

// atGuard returns a copy of x that ends where memory ends that can be accessed.
func atGuard[T Float | Half | ~uint8](t *testing.T, x []T) []T {
	page := syscall.Getpagesize()
	size := int(unsafe.Sizeof(T(0)))
	pages := (len(x)*size + page - 1) / page
	memory, err := syscall.Mmap(-1, 0, (pages+1)*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { syscall.Munmap(memory) })
	require.NoError(t, syscall.Mprotect(memory[pages*page:], syscall.PROT_NONE))
	if len(x) == 0 {
		return nil
	}
	y := unsafe.Slice((*T)(unsafe.Pointer(&memory[pages*page-len(x)*size])), len(x))
	copy(y, x)
	return y
}

// Nothing behind the last element is touched; if it were, this test would crash.
func TestGemmStaysInside(t *testing.T) {
	t.Run("f32", gemmStaysInside[float32])
	t.Run("f64", gemmStaysInside[float64])
}

func gemmStaysInside[T Float](t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	for range 200 {
		p := newProduct[T](r, r.IntN(20), r.IntN(110), r.IntN(40))
		want := p.want(true)
		p.a, p.b, p.c = atGuard(t, p.a), atGuard(t, p.b), atGuard(t, p.c)
		for _, k := range available() {
			c := append([]T(nil), p.c...)
			w := workspaceOf[T]()
			w.multiply(k.set(unsafe.Sizeof(T(0))), p.m, p.n, p.k, p.a, p.ars, p.acs, p.b, p.brs, p.bcs, Panels{}, p.c, p.ldc, p.acc)
			w.release()
			if k.f32 != nil {
				sameBits(t, k.name+" "+p.String(), p.c, want)
			}
			copy(p.c, c)
		}
	}
}

// The same for 16-bit numbers.
func TestGemmHalfStaysInside(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 34))
	for range 150 {
		p := newHalfProduct[array.Brain, array.Brain](r, r.IntN(40), r.IntN(110), r.IntN(70))
		c := p.c
		p.a, p.b, p.c = atGuard(t, p.a), atGuard(t, p.b), atGuard(t, p.c)
		for _, k := range halfKernels() {
			if k.name == "model" && p.m*p.n*p.k > modelled/4 {
				continue
			}
			want := halfProduct[array.Brain, array.Brain]{p.m, p.n, p.k, p.ars, p.acs, p.brs, p.bcs, p.ldc, p.acc, p.a, p.b, c}.by(k)
			multiplyHalf(k, p.m, p.n, p.k, p.a, p.ars, p.acs, Matrix[array.Brain]{X: p.b, Row: p.brs, Col: p.bcs}, p.c, p.ldc, p.acc)
			sameBits(t, k.name+" "+k.half()+" "+p.String(), widened(p.c), want)
			copy(p.c, c)
		}
	}
}

// The same for the loops over vectors.
func TestVectorLoopsStayInside(t *testing.T) {
	have := vectorsHere()
	r := rand.New(rand.NewPCG(19, 20))
	for _, l := range rowLoops {
		for _, n := range []int{1, 7, 15, 16, 17, 31, 40, 70} {
			in, out := slicesOf(r, l.in, n), slicesOf(r, l.out, n)
			for i := range in {
				in[i] = atGuard(t, in[i])
			}
			for i := range out {
				out[i] = atGuard(t, out[i])
			}
			for _, v := range have {
				want := slicesOf(r, l.out, n)
				l.do(v, want, in)
				l.do(v, out, in)
				for i := range out {
					sameBits(t, l.name, out[i], want[i])
				}
			}
		}
	}
}

// And those over blocks of weights, and over what is rounded for them.
func TestQuantStaysInside(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for _, d := range quant.Types() {
		block, _ := d.Block()
		for _, c := range [][3]int{{1, 1, 1}, {1, 4, 4}, {2, 5, 5}, {4, 2, 8}} {
			m, n, k := c[0], c[1], c[2]*block
			x := atGuard(t, normals[float32](r, m*k))
			w := atGuard(t, randomBlocks(r, d, n, k))
			rows, y := atGuard(t, make([]byte, m*QuantRow(d, k))), atGuard(t, make([]float32, m*n))
			for _, v := range available() {
				v.quant.quantizeRows(d, k, rows, x)
				v.quant.multiply(d, m, n, k, rows, w, nil, y, n, 1)
			}
		}
	}
}
