package gemm

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/half"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/pack"
)

// widenedProduct is the engine multiplying in float32: blocks of A and B are widened, and
// then multiplied by Multiply. Multiply adds the sums of blocks of 256 in k to C in
// order, so cutting k between such blocks changes nothing.
type widenedProduct[E Half] struct {
	w        *halfWorkspace
	ks       kernels
	a        []E
	ars, acs int
	b        []E
	brs, bcs int

	streams    [3]func(*byte) // set if B is read in place and widened on the fly
	strips     *stripSet      // set if B is, and elements of its columns are contiguous
	k0, kn, jn int            // the depth and number of the current columns
	rs, cs     int            // the strides of their copy
}

func (p *widenedProduct[E]) plan(m, n, k int) (rows, cols, deep int) {
	if s := p.ks.f32; s != nil && p.bcs == 1 && m <= 2*streamRows && n >= s.lanes {
		kind := 0
		if _, ok := any(p.b).([]array.Half); ok {
			kind = 1
		}
		p.streams = p.ks.halfStreams[kind]
		return m, n, k
	}
	if _, ok := any(p.b).([]array.Brain); ok && p.ks.brainStrips != nil && stripes(m, n, k, p.acs, p.brs) {
		p.strips = p.ks.brainStrips
		return m, n, k
	}
	// For few rows, the copies approximately stay in the first-level cache. Otherwise a
	// copy of A or B takes at most half of a second-level cache.
	switch {
	case m <= streamRows:
		return m, 96, gemmDeep
	case m <= 64:
		return m, kernel.Evenly(n, 480, 48), 2 * gemmDeep
	}
	return 256, kernel.Evenly(n, 480, 48), 2 * gemmDeep
}

// rounds is false: products of float32 write their sums to C.
func (*widenedProduct[E]) rounds(int, taker) bool {
	return false
}

func (p *widenedProduct[E]) columns(j0, jn, k0, kn int) {
	p.k0, p.kn, p.jn = k0, kn, jn
	if p.streams[0] == nil && p.strips == nil {
		p.rs, p.cs = widenBlock(p.w.dry, &p.w.b, kernel.From(p.b, k0*p.brs+j0*p.bcs), kn, jn, p.brs, p.bcs)
	}
}

func (p *widenedProduct[E]) block(i0, in int, c []float32, ldc int, acc bool) {
	if p.streams[0] != nil || p.strips != nil {
		lanes := pairLanes
		if p.strips == nil {
			lanes = p.ks.f32.lanes
		}
		whole := p.jn - p.jn%lanes
		if p.strips == nil {
			p.streamed(in, whole, c, ldc, acc)
		} else {
			ars, _ := widenBlock(p.w.dry, &p.w.a, kernel.From(p.a, i0*p.ars+p.k0*p.acs), in, p.kn, p.ars, p.acs)
			striped(p.w, p.strips, in, whole, p.kn, gemmDeep, p.w.a, ars, any(p.b).([]array.Brain), p.bcs, c, ldc, acc)
		}
		if whole < p.jn {
			rest := *p
			rest.streams, rest.strips = [3]func(*byte){}, nil
			for k0 := 0; k0 < p.kn; k0 = p.w.dry.Next(k0, gemmDeep, p.kn) {
				rest.columns(whole, p.jn-whole, k0, min(gemmDeep, p.kn-k0))
				rest.block(i0, in, kernel.From(c, whole), ldc, acc || k0 > 0)
			}
		}
		return
	}
	rs, cs := widenBlock(p.w.dry, &p.w.a, kernel.From(p.a, i0*p.ars+p.k0*p.acs), in, p.kn, p.ars, p.acs)
	w := workspaceOf[float32](p.w.dry)
	w.multiply(p.ks.f32, in, p.jn, p.kn, p.w.a, rs, cs, p.w.b, p.rs, p.cs, Panels{}, c, ldc, acc)
	w.release()
}

// streamed is Workspace.stream with B of 16-bit numbers.
func (p *widenedProduct[E]) streamed(m, n int, c []float32, ldc int, acc bool) {
	s, w := p.ks.f32, p.w
	cols := kernel.Evenly(n, 2*streamSums/streamRows, s.lanes)
	_, most := streamOf(p.streams, min(m, streamRows))
	room, all := kernel.Take(w.dry, &w.b, most*gemmDeep), kernel.Take(w.dry, &w.sums, most*cols)
	t := &w.work
	for j0 := 0; j0 < n; j0 = w.dry.Next(j0, cols, n) {
		jn := min(cols, n-j0)
		for k0 := 0; k0 < p.kn; k0 = w.dry.Next(k0, gemmDeep, p.kn) {
			kn := min(gemmDeep, p.kn-k0)
			for i0 := 0; i0 < m; i0 = w.dry.Next(i0, streamRows, m) {
				in := min(streamRows, m-i0)
				do, rows := streamOf(p.streams, in)
				rs, cs := widenBlock(w.dry, &w.a, kernel.From(p.a, i0*p.ars+k0*p.acs), in, kn, p.ars, p.acs)
				if w.dry != nil {
					continue
				}
				pa, sums := room[:rows*gemmDeep], all[:rows*cols]
				pack.Panel(s.packs, pa, rows, w.a, in, kn, cs, rs)
				clear(sums[:rows*jn])
				t.deep, t.cols = kn, uintptr(2*jn)
				t.a, t.c = unsafe.Pointer(&pa[0]), unsafe.Pointer(&sums[0])
				t.b, t.bstride = unsafe.Pointer(&p.b[k0*p.brs+j0]), uintptr(2*p.brs)
				do(t.of())
				for r := range in {
					row := c[(i0+r)*ldc+j0:][:jn]
					if !acc && k0 == 0 {
						clear(row)
					}
					for j := 0; j < jn; j += s.lanes {
						add(row[j:][:s.lanes], sums[j*rows+r*s.lanes:])
					}
				}
			}
		}
	}
}

// streamOf returns the smallest stream that has at least `rows` rows, and its number of
// rows.
func streamOf(streams [3]func(*byte), rows int) (func(*byte), int) {
	if rows > 2 {
		return streams[2], 4
	}
	return streams[rows-1], rows
}

// widenBlock copies a block of a matrix to buf, in float32, returning the copy's strides.
// Rows are contiguous in the copy, or columns if they are contiguous in src. There is a
// gap between them, because caches work badly with strides that are powers of two.
func widenBlock[E Half](dry *kernel.Dry, buf *[]float32, src []E, rows, cols, rs, cs int) (toRS, toCS int) {
	if cs != 1 && rs == 1 {
		toCS, toRS = widenBlock(dry, buf, src, cols, rows, cs, rs)
		return toRS, toCS
	}
	pitch := kernel.RoundUp(cols, pairLanes) + pairLanes
	dst := kernel.Take(dry, buf, rows*pitch)
	if dry != nil {
		return pitch, 1
	}
	done := 0
	if cs == 1 {
		switch x := any(src).(type) {
		case []array.Brain:
			done = half.WidenBrainRows(rows, cols, dst, pitch, x, rs)
		case []array.Half:
			done = half.WidenHalfRows(rows, cols, dst, pitch, x, rs)
		}
	}
	for i := 0; i < rows && done < cols; i++ {
		to, from := dst[i*pitch:][:cols], src[i*rs:]
		if cs == 1 {
			widen(to[done:], from[done:cols])
			continue
		}
		for j := range to {
			widen(to[j:j+1], from[j*cs:j*cs+1])
		}
	}
	return pitch, 1
}
