package attention

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/pack"
)

// byRow sets c[i,j] = Σ_p a[i,p] b[p,j], or adds it to c if add is 1. rows is rounded up
// to whole tiles, so rows after the last are written as well; cols fill whole vectors.
// deep is the number of products. Strides are in elements.
func (w *lanes) byRow(c []float32, cs int, a []float32, as int, b []float32, bs, rows, cols, deep int, add uintptr) {
	rows = kernel.RoundUp(rows, w.set.rows)
	_ = a[(rows-1)*as+deep-1] // assembly does not check bounds
	w.multiply(&w.set.byRow, c, cs, a, as, b, bs, rows, cols, deep, add)
}

// byCol adds Σ_p a[p,i] b[p,j] to c[i,j]. rows is a multiple of a tile's.
func (w *lanes) byCol(c []float32, cs int, a []float32, as int, b []float32, bs, rows, cols, deep int) {
	_ = a[(deep-1)*as+rows-1]
	w.multiply(&w.set.byCol, c, cs, a, as, b, bs, rows, cols, deep, 1)
}

func (w *lanes) multiply(f *[groupVecs]func(*byte), c []float32, cs int, a []float32, as int, b []float32, bs, rows, cols, deep int, add uintptr) {
	_, _ = b[(deep-1)*bs+cols-1], c[(rows-1)*cs+cols-1]
	t := &w.product
	*t = laneProduct{tiles: rows / w.set.rows, deep: deep, a: at(a, 0), astride: uintptr(4 * as), bstride: uintptr(4 * bs), cstride: uintptr(4 * cs), add: add}
	group := kernel.Evenly(cols, groupVecs*w.set.width, w.set.width)
	for j := 0; j < cols; j += group {
		t.b, t.c = at(b, j), at(c, j)
		f[min(group, cols-j)/w.set.width-1]((*byte)(unsafe.Pointer(t)))
	}
}

// pack returns the keys and values from j0 on, the beginning of a block, as rows filling
// whole vectors. It copies the first n keys and values to w.k and w.v, except rows
// already copied or, if once is set, only the rows of the block.
func (w *lanes) pack(a Attention[float32], k, v kernel.Rows[float32], kept *[2]Stored, j0, n int, once bool) (keys, values []float32) {
	wide, broad := kernel.RoundUp(a.D, kernel.Lanes), kernel.RoundUp(a.V, kernel.Lanes)
	rows := kernel.RoundUp(a.R, 8)
	if once {
		rows = min(rows, laneKeys)
	}
	keys, values = kernel.Take(w.dry, &w.k, rows*wide), kernel.Take(w.dry, &w.v, rows*broad)
	kernel.Take(w.dry, &w.odd, (a.R+laneKeys-1)/laneKeys)
	if w.dry != nil {
		return nil, nil
	}
	if once {
		w.copyBlock(a, k, v, kept, keys, values, j0, min(laneKeys, a.R-j0))
		w.ready = 0
		return keys, values
	}
	for w.ready < n {
		j := w.ready
		jn := min(laneKeys-j%laneKeys, a.R-j) // to the end of a block, because odd describes whole blocks
		w.copyBlock(a, k, v, kept, keys[j*wide:], values[j*broad:], j, jn)
		w.ready += jn
	}
	return keys[j0*wide:], values[j0*broad:]
}

// copyBlock copies n keys and values from j on to the rows of keys and values, recording
// whether the values have an Inf or a NaN.
func (w *lanes) copyBlock(a Attention[float32], k, v kernel.Rows[float32], kept *[2]Stored, keys, values []float32, j, n int) {
	if !kept[0].some() {
		w.copyRows(keys, k.From(j).X, k.Stride, n, a.D, 1)
		w.odd[j/laneKeys] = w.copyRows(values, v.From(j).X, v.Stride, n, a.V, 1)
		return
	}
	wide, broad := kernel.RoundUp(a.D, kernel.Lanes), kernel.RoundUp(a.V, kernel.Lanes)
	kept[0].rows(keys, wide, j, n, a.D)
	kept[1].rows(values, broad, j, n, a.V)
	w.odd[j/laneKeys] = w.copyRows(values, values, broad, n, a.V, 1)
}

// copyRows sets dst[n,wide] to scale·src. The rows of src have d elements and a stride of
// stride elements; elements of dst after the first d of a row are not set. It reports
// whether an element is Inf or NaN.
func (w *lanes) copyRows(dst, src []float32, stride, n, d int, scale float32) (odd bool) {
	wide, whole := kernel.RoundUp(d, kernel.Lanes), d&^(kernel.Lanes-1)
	if whole > 0 {
		odd = w.scaleRows(dst, wide, src, stride, n, whole, scale)
	}
	for i := 0; whole < d && i < n; i++ {
		to, from := dst[i*wide+whole:][:kernel.Lanes], src[i*stride+whole:][:d-whole]
		for x, y := range from {
			to[x] = scale * y
		}
		odd = odd || oddRow(from)
	}
	return odd
}

// scaleRows sets n rows of dst, of d elements each, to scale·src. d is a multiple of 16. It
// reports whether an element of src is Inf or NaN.
func (w *lanes) scaleRows(dst []float32, ds int, src []float32, ss, n, d int, scale float32) (odd bool) {
	_, _ = dst[(n-1)*ds+d-1], src[(n-1)*ss+d-1]
	w.rows = laneRows{count: n, bytes: 4 * d, dst: at(dst, 0), dstride: uintptr(4 * ds), src: at(src, 0), sstride: uintptr(4 * ss), scale: scale}
	w.set.scaleRows((*byte)(unsafe.Pointer(&w.rows)))
	odd = w.rows.odd != 0
	w.rows = laneRows{}
	return odd
}

// columns sets the columns of dst[d,width] to the n rows of src, which have d elements
// and a stride of stride elements.
func (w *lanes) columns(dst []float32, width int, src []float32, n, d, stride int) {
	pack.Panel(w.packs, dst, width, src, n, d, 1, stride)
}

// rowsOf sets the n rows of dst, which have d elements and a stride of stride elements,
// to the first n columns of src[d,width].
func (w *lanes) rowsOf(dst []float32, stride int, src []float32, width, n, d int) {
	_, _ = dst[(n-1)*stride+d-1], src[(d-1)*width+n-1]
	done := 0
	for _, t := range w.packs.Transposes {
		deep := n &^ (t.Deep - 1)
		for ; deep > 0 && done+t.Lanes <= d; done += t.Lanes {
			from := src[done*width:]
			t.Do(deep, addressOf(dst[done:]), uintptr(4*stride), addressOf(from), uintptr(4*width))
			for i := deep; i < n; i++ {
				for l := range t.Lanes {
					dst[i*stride+done+l] = from[l*width+i]
				}
			}
		}
	}
	for i := range n {
		for l := done; l < d; l++ {
			dst[i*stride+l] = src[l*width+i]
		}
	}
}

func addressOf(x []float32) *byte { return (*byte)(unsafe.Pointer(unsafe.SliceData(x))) }
