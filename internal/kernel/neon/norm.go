package main

import (
	"fmt"
	"math"
)

// Offsets of the fields of type normArgs in package norm, which checks them.
const (
	normRows  = 0
	normN     = 8 // elements of a row: a positive multiple of 16
	normX     = 16
	normGain  = 24
	normBias  = 32
	normCt    = 40
	normY     = 48
	normMean  = 56
	normInv   = 64
	normStep  = 72 // stride of the means in bytes
	normEps   = 80
	normCount = 88 // N, in float64
	normPitch = 96 // row stride of x, ct and y in bytes
)

// Vector registers of a loop over rows. Registers below normFree hold short-lived values.
const (
	normFree              = 9
	normSums, normSquares = 9, 17 // 8 registers each, for 16 sums in float64
	normA, normB, normC   = 25, 26, 27
	normD                 = 28
	normOnes, normCounts  = 29, 30
	normEpss              = 31
)

// normLoop is a loop over rows of float32 that computes in float64.
type normLoop struct {
	*file
	at    map[int]int // for each field, the general register pointing to its current row
	loops int
}

const normLeft, normBytes = 1, 20

// normLoop writes a function of one argument, a normArgs. body writes the work on a row.
// The pointers in the fields `rows` advance by a row after each; the pointers in `once`
// do not.
func (f *file) normLoop(name, doc string, rows, once []int, body func(l *normLoop)) {
	f.function("neon"+name, "is "+doc, "t *byte")
	f.line("MOVD %d(R0), R%d", normRows, normLeft)
	l := &normLoop{file: f, at: map[int]int{}}
	for _, field := range append(append([]int(nil), rows...), once...) {
		l.at[field] = 2 + len(l.at)
		f.line("MOVD %d(R0), R%d", field, l.at[field])
	}
	f.line("MOVD $%s(SB), %s", f.table(), constantsAt)
	f.line("FMOVQ %d(%s), F%d", f.pair(math.Float64bits(1)), constantsAt, normOnes)
	f.broadcast(d2, normCount, normCounts)
	f.broadcast(d2, normEps, normEpss)
	f.label("row")
	body(l)
	f.line("MOVD %d(R0), R%d", normPitch, g0)
	for _, field := range rows {
		f.line("ADD R%d, R%d", g0, l.at[field])
	}
	f.line("SUBS $1, R%d, R%d", normLeft, normLeft)
	f.line("BNE row")
	f.line("RET")
}

// row gives the body of each access to two elements of a row: load returns the two of a
// float32 field as float64, wide returns the place of the two of a float64 field, and
// store rounds two results to float32 and stores them.
type row struct {
	*block
	part  int // index of the two among 16 elements
	load  func(field int) value
	wide  func(field int) mem
	store func(x value, field int)
}

// each writes a loop over the elements of a row. body writes the work on two of them.
// fields are the float32 fields in use, wides the float64 fields.
func (l *normLoop) each(fields, wides []int, body func(r row)) {
	f, cursor := l.file, map[int]int{}
	for i, field := range append(append([]int(nil), fields...), wides...) {
		cursor[field] = []int{11, 12, 13, 14, 15, 19}[i]
		f.line("MOVD R%d, R%d", l.at[field], cursor[field])
	}
	f.line("MOVD %d(R0), R%d", normN, normBytes)
	label := fmt.Sprintf("vector%d", l.loops)
	l.loops++
	f.loop(label)
	f.single(normFree, func(b *block) {
		var four, narrow map[int]value // by field: values loaded and stored for two parts
		for part := range 8 {
			if part%2 == 0 {
				four, narrow = map[int]value{}, map[int]value{}
			}
			body(row{block: b, part: part,
				load: func(field int) value {
					if part%2 == 1 {
						return b.widen("fcvtl2", four[field])
					}
					four[field] = b.load(at(cursor[field], 8*part))
					return b.widen("fcvtl", four[field])
				},
				wide: func(field int) mem { return at(cursor[field], 16*part) },
				store: func(x value, field int) {
					if part%2 == 0 {
						narrow[field] = b.narrow(x)
						return
					}
					y := narrow[field]
					b.do(func(r func(value) int) string { return encodeConvert("fcvtn2", r(y), r(x)).String() }, x, y)
					b.store(y, at(cursor[field], 8*(part-1)))
				},
			})
		}
	})
	for _, field := range fields {
		f.line("ADD $64, R%d", cursor[field])
	}
	for _, field := range wides {
		f.line("ADD $128, R%d", cursor[field])
	}
	f.line("SUBS $16, R%d, R%d", normBytes, normBytes)
	f.line("BNE %s", label)
}

func (b *block) addD(x, y value) value { return b.three("fadd", d2, x, y) }
func (b *block) subD(x, y value) value { return b.three("fsub", d2, x, y) }
func (b *block) mulD(x, y value) value { return b.three("fmul", d2, x, y) }

// addTo adds x to the part's sums; the sums are in the registers from `sums` on.
func (r row) addTo(sums int, x value) {
	to := pinned(sums + r.part)
	r.into("fadd", d2, to, to, x)
}

// total sets both lanes of V`to` to the sum of 16 sums: sums 8 apart are added first,
// then sums 4, 2 and 1 apart.
func (l *normLoop) total(sums, to int) {
	l.single(normFree, func(b *block) {
		for apart := 4; apart > 0; apart /= 2 {
			for i := range apart {
				b.into("fadd", d2, pinned(sums+i), pinned(sums+i), pinned(sums+i+apart))
			}
		}
		x := pinned(sums)
		b.into("fadd", d2, pinned(to), x, b.rotate(x, 8))
	})
}

// inverse sets V`to` to 1/√(V`to`/N + eps).
func (l *normLoop) inverse(to int) {
	l.single(normFree, func(b *block) {
		x := b.addD(b.three("fdiv", d2, pinned(to), pinned(normCounts)), pinned(normEpss))
		b.into("fdiv", d2, pinned(to), pinned(normOnes), b.two("fsqrt", d2, x))
	})
}

// factor sets V`dot` to dot·(inv·inv/N).
func (l *normLoop) factor(dot, inv int) {
	l.single(normFree, func(b *block) {
		k := b.three("fdiv", d2, b.mulD(pinned(inv), pinned(inv)), pinned(normCounts))
		b.into("fmul", d2, pinned(dot), pinned(dot), k)
	})
}

// put writes V`x` to the array of a field with one element per row.
func (l *normLoop) put(x, field int) { l.line("FMOVD.P F%d, 8(R%d)", x, l.at[field]) }

// moments sets V`mean` to the mean and V`inv` to 1/√(variance + eps).
func (l *normLoop) moments(mean, inv int) {
	l.clearVectors(normSums, 8)
	l.each([]int{normX}, nil, func(r row) { r.addTo(normSums, r.load(normX)) })
	l.total(normSums, mean)
	l.line("%v", encodeThree("fdiv", d2, mean, mean, normCounts))
	l.clearVectors(normSquares, 8)
	l.each([]int{normX}, nil, func(r row) {
		x := r.subD(r.load(normX), pinned(mean))
		r.addTo(normSquares, r.mulD(x, x))
	})
	l.total(normSquares, inv)
	l.inverse(inv)
}

func (f *file) rmsLoops() {
	const inv, dot = normA, normB
	square := func(l *normLoop) {
		l.clearVectors(normSquares, 8)
		l.each([]int{normX}, nil, func(r row) {
			x := r.load(normX)
			r.addTo(normSquares, r.mulD(x, x))
		})
		l.total(normSquares, inv)
		l.inverse(inv)
	}
	f.normLoop("RMSNorm", "y = x·inv·gain", []int{normX, normY}, []int{normGain}, func(l *normLoop) {
		square(l)
		l.each([]int{normX, normGain, normY}, nil, func(r row) {
			x := r.mulD(r.load(normX), pinned(inv))
			r.store(r.mulD(x, r.load(normGain)), normY)
		})
	})
	f.normLoop("RMSInverse", "inv = 1/√(mean(x²) + eps)", []int{normX}, []int{normInv}, func(l *normLoop) {
		square(l)
		l.put(inv, normInv)
	})
	f.normLoop("RMSNormGrad", "rms_norm's cotangent of x", []int{normX, normCt, normY}, []int{normGain}, func(l *normLoop) {
		l.clearVectors(normSums, 16)
		l.each([]int{normX, normCt, normGain}, nil, func(r row) {
			x := r.load(normX)
			g := r.mulD(r.load(normCt), r.load(normGain))
			r.addTo(normSums, r.mulD(g, x))
			r.addTo(normSquares, r.mulD(x, x))
		})
		l.total(normSquares, inv)
		l.inverse(inv)
		l.total(normSums, dot)
		l.factor(dot, inv)
		l.each([]int{normX, normCt, normGain, normY}, nil, func(r row) {
			x := r.mulD(r.load(normX), pinned(dot))
			g := r.mulD(r.load(normCt), r.load(normGain))
			r.store(r.mulD(r.subD(g, x), pinned(inv)), normY)
		})
	})
}

func (f *file) layerLoops() {
	const mean, inv, sum, dot = normA, normB, normC, normD
	f.normLoop("LayerNorm", "y = (x - mean)·inv·gain + bias", []int{normX, normY}, []int{normGain, normBias}, func(l *normLoop) {
		l.moments(mean, inv)
		l.each([]int{normX, normGain, normBias, normY}, nil, func(r row) {
			x := r.mulD(r.subD(r.load(normX), pinned(mean)), pinned(inv))
			r.store(r.addD(r.mulD(x, r.load(normGain)), r.load(normBias)), normY)
		})
	})
	f.normLoop("Moments", "the mean of x and 1/√(variance + eps)", []int{normX}, []int{normMean, normInv}, func(l *normLoop) {
		l.moments(mean, inv)
		l.put(mean, normMean)
		l.put(inv, normInv)
	})
	f.normLoop("LayerNormGrad", "layer_norm's cotangent of x", []int{normX, normCt, normY}, []int{normGain}, func(l *normLoop) {
		l.moments(mean, inv)
		l.clearVectors(normSums, 16)
		l.each([]int{normX, normCt, normGain}, nil, func(r row) {
			g := r.mulD(r.load(normCt), r.load(normGain))
			r.addTo(normSums, g)
			x := r.subD(r.load(normX), pinned(mean))
			r.addTo(normSquares, r.mulD(g, x))
		})
		l.total(normSums, sum)
		l.line("%v", encodeThree("fdiv", d2, sum, sum, normCounts))
		l.total(normSquares, dot)
		l.factor(dot, inv)
		l.each([]int{normX, normCt, normGain, normY}, nil, func(r row) {
			g := r.subD(r.mulD(r.load(normCt), r.load(normGain)), pinned(sum))
			x := r.mulD(r.subD(r.load(normX), pinned(mean)), pinned(dot))
			r.store(r.mulD(r.subD(g, x), pinned(inv)), normY)
		})
	})
}

// columnSums writes the functions adding rows to the float64 sums in y.
func (f *file) columnSums() {
	const mean, inv = normA, normB
	sum := func(l *normLoop, fields []int, addend func(r row) value) {
		l.each(fields, []int{normY}, func(r row) {
			x := addend(r)
			to := r.wide(normY)
			r.block.store(r.addD(r.block.load(to), x), to)
		})
	}
	f.normLoop("AddGain", "y += ct·(x - mean)·inv", []int{normX, normCt}, []int{normY, normMean, normInv}, func(l *normLoop) {
		f.line("VLD1R (R%d), [V%d.D2]", l.at[normMean], mean)
		f.line("VLD1R.P 8(R%d), [V%d.D2]", l.at[normInv], inv)
		f.line("MOVD %d(R0), R%d", normStep, g0)
		f.line("ADD R%d, R%d", g0, l.at[normMean])
		sum(l, []int{normX, normCt}, func(r row) value {
			x := r.subD(r.load(normX), pinned(mean))
			return r.mulD(r.mulD(r.load(normCt), x), pinned(inv))
		})
	})
	f.normLoop("AddBias", "y += ct", []int{normCt}, []int{normY}, func(l *normLoop) {
		sum(l, []int{normCt}, func(r row) value { return r.load(normCt) })
	})
}

// rope writes the function rotating pairs. The fields have other meanings here: it
// rotates pairs of x and ct to pairs of y and gain; mean points to cosines and inv to
// sines, which are multiplied by count.
func (f *file) rope() {
	f.normLoop("Rope", "rows of two halves, x and ct, turned by angles", []int{normX, normCt, normY, normGain}, []int{normMean, normInv}, func(l *normLoop) {
		l.each([]int{normX, normCt, normY, normGain}, []int{normMean, normInv}, func(r row) {
			cos := r.block.load(r.wide(normMean))
			sin := r.mulD(r.block.load(r.wide(normInv)), pinned(normCounts))
			x, w := r.load(normX), r.load(normCt)
			r.store(r.subD(r.mulD(x, cos), r.mulD(w, sin)), normY)
			r.store(r.addD(r.mulD(w, cos), r.mulD(x, sin)), normGain)
		})
	})
}

func (f *file) norm() {
	f.rmsLoops()
	f.layerLoops()
	f.columnSums()
	f.rope()
}
