package gemm

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/pack"
)

// These are the sizes of blocks of products in assembly. A tile of C stays in registers
// while a panel of B, as wide as the tile and 256 deep (48 KiB), is read from the first-
// or second-level cache. For every panel, a block of A is read from the second-level
// cache. Their block of C stays there as well, while k advances four times by 256. The
// block of B, 1024 deep, is in the third-level cache.
//
// Measured for float32 and n=2048, on a core with caches of 48 KiB, 1 MiB and 32 MiB: 229
// GFLOP/s of at most 256, and 216 if the block of B is 256 deep. Half or twice as much of
// A, or of the 1056 columns of B (22 panels), is within 3% of that. NEON has the same
// number of columns; it was not measured.
//
// If the second-level cache has 2 MiB and the third is slow, as on Intel's Xeons, the
// block of B is 512 deep and has half of the columns (1 MiB). On one core of an Emerald
// Rapids, median of GFLOP/s: n=1024 140 -> 145, n=2048 138 -> 143, and 256 rows, 1024
// columns, 512 deep 136 -> 143; n=512 and 64 rows are the same within 2%.
const (
	blockBytesA = 128 << 10 // a block of A, of 256 columns: 128 rows of float32
	blockDeep   = 4 * gemmDeep
	// If the second-level cache is that large, A is copied if its row stride is at least
	// this many bytes, with each row in pages of its own. On one core of a Granite
	// Rapids, least times of n=2048, in three runs of 3, 4 and 5 rounds: 151 -> 131, 146
	// -> 132 and 151 -> 137 ms. With rows 4 KiB apart (n=1024) there is no difference.
	farRows = 8 << 10
)

// blocked multiplies tile by tile. B is copied to panels with contiguous rows. If the
// elements of a row of B are contiguous, the first tile reading a panel copies it as
// well. If so few rows are multiplied that a copy costs more than it saves, B is read in
// place. A is read in place if the elements of its rows are contiguous, and copied
// otherwise, or if rows are far apart (see farRows). Tiles at the edges are whole: their
// copies of A and B are padded with zeros, so that every element of C is computed by the
// same sequence of instructions.
//
// Sources: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication"
// (2008); Van Zee and van de Geijn, "BLIS" (2015).
func (w *Workspace[T]) blocked(s *set, m, n, k int, a []T, ars, acs int, b []T, brs, bcs int, p Panels, c []T, ldc int, acc bool) {
	var (
		size   = int(unsafe.Sizeof(T(0)))
		wide   = tileVecs * s.lanes
		rows   = blockBytesA / gemmDeep / size
		most   = kernel.Evenly(n, s.panels*wide, wide)
		cols   = most
		deep   = blockDeep
		ready  = p.fit(n, wide)                                 // panels p replace B
		direct = !ready && bcs == 1 && m <= min(rows, s.direct) // read B in place
		packed = min(most, kernel.RoundUp(n, s.lanes))          // the columns of B's copy
		l      = left[T]{copies: kernel.Take(w.Dry, &w.a, kernel.RoundUp(min(rows, m), s.rows)*min(k, gemmDeep)), stride: ars, step: acs}
		pb     []T
		t      = &w.work
	)
	switch {
	case ready:
	case direct:
		pb = kernel.Take(w.Dry, &w.b, wide*min(k, gemmDeep)) // for the last columns, if they do not fill vectors
	default:
		pb = kernel.Take(w.Dry, &w.b, packed*min(k, blockDeep))
	}
	if w.Dry != nil {
		return
	}
	if s.near { // with the memory of larger blocks, the same for every processor
		cols, deep = kernel.Evenly(n, s.panels/2*wide, wide), blockDeep/2
		packed = min(cols, packed)
	}
	block := func(i0, in, j0, jn, k0, kn int) {
		l.pack(s, a[i0*ars+k0*acs:], in, kn)
		t.deep, t.add = kn, 0
		if acc || k0 > 0 {
			t.add = 1
		}
		for j := 0; j < jn; j += wide {
			v := min(wide, jn-j)
			padded := kernel.RoundUp(v, s.lanes)
			from, copied := b[k0*brs+(j0+j)*bcs:], pb
			if !direct && !ready {
				copied = pb[k0%deep*packed+j*kn:]
			}
			t.copy = nil
			switch {
			case ready:
				t.b, t.bstride, t.ahead = unsafe.Pointer(panel[T](p, s, k0, kn, j0+j)), uintptr(padded*size), uintptr(8*padded*size)
			case direct && v == padded:
				// The next panel is prefetched; its rows are next to the rows of this
				// one. The next rows of this panel are needed too soon for memory to
				// deliver them.
				t.b, t.bstride, t.ahead = unsafe.Pointer(&from[0]), uintptr(brs*size), uintptr(wide*size)
			case i0 == 0 && bcs == 1 && v == wide && in >= s.rows && s.copying != nil:
				t.b, t.bstride = unsafe.Pointer(&from[0]), uintptr(brs*size)
				t.copy = unsafe.Pointer(&copied[:kn*wide][0])
			default:
				if i0 == 0 {
					pack.Panel(s.packs, copied, padded, from, v, kn, brs, bcs)
				}
				t.b, t.bstride, t.ahead = unsafe.Pointer(&copied[0]), uintptr(padded*size), uintptr(8*padded*size)
			}
			w.column(s, in, v, &l, c[i0*ldc+j0+j:], ldc)
		}
	}
	for j0 := 0; j0 < n; j0 += cols {
		for d0 := 0; d0 < k; d0 += deep {
			for i0 := 0; i0 < m; i0 += rows {
				for k0 := d0; k0 < min(d0+deep, k); k0 += gemmDeep {
					block(i0, min(rows, m-i0), j0, min(cols, n-j0), k0, min(gemmDeep, k-k0))
				}
			}
		}
	}
}

// left is a block of A. Rows before first are read in place: element p of row i is
// at[i*stride+p*step]. The rows from first on are in copies, tile by tile.
type left[T kernel.Float] struct {
	at           []T
	stride, step int
	copies       []T
	first        int
}

// pack makes l the block of A that begins at `at` and has m rows of `deep` elements.
func (l *left[T]) pack(s *set, at []T, m, deep int) {
	l.at, l.first = at, 0
	far := s.near && l.stride*int(unsafe.Sizeof(T(0))) >= farRows
	if l.step == 1 && s.copying != nil && !far {
		l.first = m - m%s.rows // the last tile may need padding
	}
	for i := l.first; i < m; i += s.rows {
		h := min(s.rows, m-i)
		_, padded := s.tileOf(h, 1)
		pack.Panel(s.packs, l.copies[(i-l.first)*deep:], padded, at[i*l.stride:], h, deep, l.step, l.stride)
	}
}

// column multiplies the tiles of A, m rows in all, by the panel of n columns of B to
// which w.work points.
func (w *Workspace[T]) column(s *set, m, n int, l *left[T], c []T, ldc int) {
	t := &w.work
	padded, size := kernel.RoundUp(n, s.lanes), int(unsafe.Sizeof(T(0)))
	for i := 0; i < m; i += s.rows {
		h := min(s.rows, m-i)
		tile, rows := s.tileOf(h, padded/s.lanes)
		if i < l.first {
			t.a, t.astride, t.astep = unsafe.Pointer(&l.at[i*l.stride]), uintptr(l.stride*size), uintptr(l.step*size)
		} else {
			t.a, t.astride, t.astep = unsafe.Pointer(&l.copies[(i-l.first)*t.deep]), uintptr(size), uintptr(rows*size)
		}
		if h == rows && n == padded {
			t.c, t.cstride = unsafe.Pointer(&c[i*ldc]), uintptr(ldc*size)
			if t.copy != nil {
				s.copying(t.of())
				t.b, t.bstride, t.ahead, t.copy = t.copy, uintptr(padded*size), uintptr(8*padded*size), nil
				continue
			}
			tile(t.of())
			continue
		}
		for r := 0; r < h && t.add != 0; r++ {
			copy(w.edge[r*padded:], c[(i+r)*ldc:][:n])
		}
		t.c, t.cstride = unsafe.Pointer(&w.edge), uintptr(padded*size)
		tile(t.of())
		for r := range h {
			copy(c[(i+r)*ldc:][:n], w.edge[r*padded:])
		}
	}
}
