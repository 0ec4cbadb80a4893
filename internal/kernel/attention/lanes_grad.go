package attention

import (
	"math"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// backward is Attender.Backward.
func (w *lanes) backward(a Attention[float32], k, v, q, out kernel.Rows[float32], lse []float32, dout kernel.Rows[float32], dlse []float32, dq, bias kernel.Rows[float32], from, to int) {
	wide, broad := kernel.RoundUp(a.D, kernel.Lanes), kernel.RoundUp(a.V, kernel.Lanes)
	begun := 0 // number of rows of dk and dv holding sums
	for i0 := from; i0 < to; i0 += laneQueries {
		b := w.blockAt(a, i0, to)
		keys, values := w.pack(a, k, v, &[2]Stored{}, 0, b.keys(), false)
		padded := kernel.RoundUp(b.keys(), 8)
		dk, dv := kernel.Take(w.dry, &w.dk, kernel.RoundUp(a.R, 8)*wide), kernel.Take(w.dry, &w.dv, kernel.RoundUp(a.R, 8)*broad)
		qn, gn := kernel.Take(w.dry, &w.q, b.width*wide), kernel.Take(w.dry, &w.g, b.width*broad)
		qt, gt := kernel.Take(w.dry, &w.qt, a.D*b.width), kernel.Take(w.dry, &w.gt, a.V*b.width)
		p, ds := kernel.Take(w.dry, &w.p, laneKeys*b.width), kernel.Take(w.dry, &w.ds, laneKeys*b.width)
		sums := kernel.Take(w.dry, &w.sums, wide*b.width)
		if a.Cap != 0 {
			kernel.Take(w.dry, &w.slopes, laneKeys*b.width)
		}
		if w.dry != nil {
			return // no block is wider
		}
		clear(dk[begun*wide : max(padded, begun)*wide])
		clear(dv[begun*broad : max(padded, begun)*broad])
		begun = max(b.keys(), begun) // products write to the rows after it, up to a whole tile

		w.copyRows(qn, q.From(i0).X, q.Stride, b.n, a.D, a.Scale)
		w.copyRows(gn, dout.From(i0).X, dout.Stride, b.n, a.V, 1)
		w.columns(qt, b.width, qn, b.n, a.D, wide)
		w.columns(gt, b.width, gn, b.n, a.V, broad)
		for i := range b.n {
			s := &w.scores[i/kernel.Lanes]
			sum := lse[i0+i]
			if math.IsInf(float64(sum), -1) {
				sum = -sum // powers are 0
			}
			s.lse[i%kernel.Lanes] = sum
			d := rowDot(gn[i*broad:][:a.V], out.Row(i0+i, a.V))
			if dlse != nil {
				d -= dlse[i0+i]
			}
			s.delta[i%kernel.Lanes] = d
		}
		clear(sums)
		for j0 := b.begin(); j0 < b.keys(); j0 += laneKeys {
			w.grad(b, keys[j0*wide:], values[j0*broad:], p, ds, bias, j0)
		}
		w.scaleRows(sums, 0, sums, 0, 1, len(sums), a.Scale)
		w.rowsOf(dq.From(i0).X, dq.Stride, sums, b.width, b.n, a.D)
	}
}

// grad adds the contributions of the keys from j0 on and the block's queries to each
// other's cotangents. k and v begin with the key j0.
func (w *lanes) grad(b laneBlock, k, v, p, ds []float32, bias kernel.Rows[float32], j0 int) {
	jn := min(laneKeys, b.keys()-j0)
	group := b.group()
	for c := 0; c < b.width; c += group {
		cn := min(group, b.width-c)
		n := b.seen(j0, jn, c+cn)
		if n == 0 {
			continue
		}
		w.byRow(p[c:], b.width, k, b.wide, w.qt[c:], b.width, n, cn, b.D, 0)
		w.adjust(b, p, w.slopes, bias, j0, c, cn, n)
		w.byRow(ds[c:], b.width, v, b.broad, w.gt[c:], b.width, n, cn, b.V, 0)
		for l := c; l < c+cn; l += kernel.Lanes {
			s := w.lane(b, l, n)
			s.p, s.ds = at(p, l), at(ds, l)
			w.set.grad((*byte)(unsafe.Pointer(s)))
			w.mask(b, s, p[l:], j0, l, n, 0)
			w.mask(b, s, ds[l:], j0, l, n, 0)
		}
		for r := 0; b.Cap != 0 && r < n; r++ {
			row := ds[r*b.width+c:][:cn]
			for i, x := range w.slopes[r*b.width+c:][:cn] {
				row[i] *= x
			}
		}
		w.byCol(w.sums[c:], b.width, k, b.wide, ds[c:], b.width, b.wide, cn, n)
	}
	begun := 0
	for c := 0; c < b.width; c += group {
		// Columns before c do not attend to the keys from begun to n-1; columns from c on may.
		n := b.seen(j0, jn, c+group)
		if n > begun && b.n > c {
			for _, x := range [2]struct {
				to, p, from []float32
				wide        int
			}{{w.dv, p, w.g, b.broad}, {w.dk, ds, w.q, b.wide}} {
				w.byRow(x.to[(j0+begun)*x.wide:], x.wide, x.p[begun*b.width+c:], b.width, x.from[c*x.wide:], x.wide, n-begun, x.wide, b.n-c, 1)
			}
		}
		begun = n
	}
}

// rowDot returns Σ x[d] y[d]. Of four partial sums, sum k adds the elements k, k+4 and so
// on; elements after the last four are added to the first. Then the sums are added in
// pairs.
func rowDot(x, y []float32) float32 {
	var a, b, c, d float32
	i := 0
	for ; i+4 <= len(x) && i+4 <= len(y); i += 4 {
		x, y := x[i:i+4:i+4], y[i:i+4:i+4]
		a += float32(x[0] * y[0])
		b += float32(x[1] * y[1])
		c += float32(x[2] * y[2])
		d += float32(x[3] * y[3])
	}
	for ; i < len(x); i++ {
		a += float32(x[i] * y[i])
	}
	return (a + c) + (b + d)
}

// addTo is Attender.AddTo.
func (w *lanes) addTo(d, v, keys int, dk, dv kernel.Rows[float32]) {
	for _, x := range [2]struct {
		to   kernel.Rows[float32]
		from []float32
		d    int
	}{{dk, w.dk, d}, {dv, w.dv, v}} {
		wide, whole := kernel.RoundUp(x.d, kernel.Lanes), x.d&^(kernel.Lanes-1)
		if whole > 0 && keys > 0 {
			_, _ = x.to.X[(keys-1)*x.to.Stride+whole-1], x.from[(keys-1)*wide+whole-1]
			w.rows = laneRows{count: keys, bytes: 4 * whole, dst: at(x.to.X, 0), dstride: uintptr(4 * x.to.Stride), src: at(x.from, 0), sstride: uintptr(4 * wide)}
			w.set.addRow((*byte)(unsafe.Pointer(&w.rows)))
			w.rows = laneRows{}
		}
		for j := 0; whole < x.d && j < keys; j++ {
			add(x.to.Row(j, x.d)[whole:], x.from[j*wide+whole:])
		}
	}
}
