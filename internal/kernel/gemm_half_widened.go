package kernel

// widenedProduct is the engine that multiplies in float32: blocks of A and B
// are widened, and multiplied as any others. As the sums of blocks of 256 in k
// are added to C one after the other, cutting k between blocks changes nothing.
type widenedProduct[E Half] struct {
	w        *halfWorkspace
	s        *set
	a        []E
	ars, acs int
	b        []E
	brs, bcs int

	k0, kn, jn int // of the columns at hand
	rs, cs     int // strides of their copy
}

func (p *widenedProduct[E]) plan(m, n, k int) (rows, cols, deep int) {
	// Copies of A and B take half of a second level cache each, or less.
	switch {
	case m <= streamRows:
		return m, evenly(n, 512, 48), gemmDeep
	case m <= 64:
		return m, evenly(n, 480, 48), gemmDeep
	}
	return 256, evenly(n, 480, 48), 2 * gemmDeep
}

func (p *widenedProduct[E]) columns(j0, jn, k0, kn int) {
	p.k0, p.kn, p.jn = k0, kn, jn
	p.rs, p.cs = widenBlock(&p.w.b, p.b[k0*p.brs+j0*p.bcs:], kn, jn, p.brs, p.bcs)
}

func (p *widenedProduct[E]) block(i0, in int, c []float32, ldc int, acc bool) {
	rs, cs := widenBlock(&p.w.a, p.a[i0*p.ars+p.k0*p.acs:], in, p.kn, p.ars, p.acs)
	w := workspaceOf[float32]()
	w.multiply(p.s, in, p.jn, p.kn, p.w.a, rs, cs, p.w.b, p.rs, p.cs, c, ldc, acc)
	w.release()
}

// widenBlock copies a block of a matrix to buf, in float32, with rows or columns
// contiguous as they are in src, and returns the strides there. Between them are
// a few numbers, as caches do not like powers of two.
func widenBlock[E Half](buf *[]float32, src []E, rows, cols, rs, cs int) (toRS, toCS int) {
	if cs != 1 && rs == 1 {
		toCS, toRS = widenBlock(buf, src, cols, rows, cs, rs)
		return toRS, toCS
	}
	pitch := roundUp(cols, pairLanes) + pairLanes
	dst := room(buf, rows*pitch)
	for i := range rows {
		to, from := dst[i*pitch:][:cols], src[i*rs:]
		if cs == 1 {
			widen(to, from[:cols])
			continue
		}
		for j := range to {
			widen(to[j:j+1], from[j*cs:j*cs+1])
		}
	}
	return pitch, 1
}
