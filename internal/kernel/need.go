package kernel

import (
	"maps"
	"unsafe"

	"github.com/gomoe/gomoe/array"
)

// Need is the memory in bytes that products and attention keep on each thread that
// works on them, by buffer. Each is as long as the longest that a call has asked for.
type Need map[string]int64

// And adds what another call needs.
func (n Need) And(others ...Need) Need {
	all := maps.Clone(n)
	if all == nil {
		all = Need{}
	}
	for _, o := range others {
		for buf, bytes := range o {
			all[buf] = max(all[buf], bytes)
		}
	}
	return all
}

// Bytes returns the sum.
func (n Need) Bytes() int64 {
	var sum int64
	for _, bytes := range n {
		sum += bytes
	}
	return sum
}

func nameOf[T any]() string {
	switch any(*new(T)).(type) {
	case float32:
		return "f32"
	case float64:
		return "f64"
	}
	return "half"
}

func sizeOf[T any]() int64 { return int64(unsafe.Sizeof(*new(T))) }

// GemmNeed is what Gemm, or GemmHalf, of m by n by k takes, whose b has contiguous rows
// unless it is transposed, and panels if `panels` is set. R is the result's type.
func GemmNeed[E, R Number](m, n, k int, transposed, panels bool) Need {
	ks, _ := selection()
	return gemmNeed[E, R](ks, m, n, k, transposed, panels)
}

func gemmNeed[E, R Number](ks kernels, m, n, k int, transposed, panels bool) Need {
	bcs := 1
	if transposed && k > 1 {
		bcs = k
	}
	panels = panels && panelBytes[E](ks, k, n, transposed) > 0
	if m <= 0 || n <= 0 || k <= 0 {
		return nil
	}
	switch any(*new(E)).(type) {
	case float32:
		return floatNeed[float32](ks.f32, m, n, k, bcs, panels)
	case float64:
		return floatNeed[float64](ks.f64, m, n, k, bcs, panels)
	}
	_, exact := any(*new(R)).(float32)
	_, brain := any(*new(E)).(array.Brain)
	if brain && ks.bf16 != nil {
		return pairsNeed(ks.bf16, m, n, k, bcs, panels, exact)
	}
	return widenedNeed(ks, m, n, k, bcs, !brain, exact)
}

// floatNeed is that of multiply.
func floatNeed[T Float](s *set, m, n, k, bcs int, panels bool) Need {
	own := nameOf[T]()
	need := func(a, b, sums int) Need {
		return Need{own: sizeOf[workspace[T]](), own + ".a": int64(a) * sizeOf[T](), own + ".b": int64(b) * sizeOf[T](), own + ".sums": int64(sums) * sizeOf[T]()}
	}
	if s == nil {
		panel := 0
		if bcs != 1 || m > gemmPack {
			panel = min(k, gemmDeep) * min(n, gemmCols)
		}
		return need(gemmRows*min(k, gemmDeep), panel, gemmRows*min(n, gemmCols))
	}
	if m <= streamRows && bcs == 1 && n >= s.lanes && !panels {
		_, rows := s.streamOf(m)
		whole := n - n%s.lanes
		streamed := need(rows*min(k, gemmDeep), 0, rows*evenly(whole, streamSums/rows, s.lanes))
		if whole < n {
			return streamed.And(need(blockedNeed(s, m, n-whole, k, 1, false, blockBytesA/gemmDeep/int(sizeOf[T]()))))
		}
		return streamed
	}
	return need(blockedNeed(s, m, n, k, bcs, panels, blockBytesA/gemmDeep/int(sizeOf[T]())))
}

// blockedNeed returns how many elements blocked wants of a, b and sums.
func blockedNeed(s *set, m, n, k, bcs int, panels bool, rows int) (a, b, sums int) {
	wide := tileVecs * s.lanes
	a = roundUp(min(rows, m), s.rows) * min(k, gemmDeep)
	switch {
	case panels:
	case bcs == 1 && m <= min(rows, s.direct):
		b = wide * min(k, gemmDeep)
	default:
		b = min(evenly(n, s.panels*wide, wide), roundUp(n, s.lanes)) * min(k, blockDeep)
	}
	return a, b, 0
}

// runNeed is that of the sums that `run` keeps: elements.
func runNeed(m, n, k, rows, cols, deep int, exact, rounds bool) int {
	if exact || rounds {
		return 0
	}
	many := rows
	if k > deep {
		many = max(rows, manyRows/rows*rows)
	}
	return min(many, m) * min(cols, n)
}

// pairsNeed is that of a pairProduct.
func pairsNeed(s *halfSet, m, n, k, bcs int, panels, exact bool) Need {
	p := pairProduct{w: &halfWorkspace{}, s: s, bcs: bcs, dry: true}
	if panels {
		p.panels = Panels{mem: []byte{0}, k: k, n: n}
	}
	rows, cols, deep := p.plan(m, n, k)
	need := Need{"half": sizeOf[halfWorkspace]()}
	rounds := !exact && p.rounds(k, nil)
	need["half.c"] = 4 * int64(runNeed(m, n, k, rows, cols, deep, exact, rounds))
	copies := func(n, deep int) int64 { return 4 * int64(roundUp(n, pairLanes)*s.depth(deep)/2) }
	switch {
	case p.stream:
		at := min(m, streamRows)
		if at == 3 {
			at = 4
		}
		whole := n &^ (streamLanes - 1)
		need["half.pa"] = 4 * int64(at*s.deep/2)
		need["half.sums"] = 4 * int64(at*evenly(whole, 2*streamSums/streamRows, streamLanes))
		if whole < n {
			need["half.pa"] = max(need["half.pa"], 4*int64(roundUp(m, s.most)*s.depth(min(k, s.deep))/2))
			need["half.pb"] = copies(n-whole, min(k, 4*s.deep))
		}
		if k%2 > 0 {
			need["half.pb"] = max(need["half.pb"], 4*int64(min(whole, evenly(whole, 2*streamSums/streamRows, streamLanes))))
		}
		return need
	case p.keep:
		need["half.pa"] = 4 * int64(roundUp(m, s.most)*s.depth(k)/2)
	default:
		need["half.pa"] = 4 * int64(roundUp(min(rows, m), s.most)*s.depth(min(k, s.deep))/2)
	}
	if !panels {
		need["half.pb"] = copies(min(cols, n), min(deep, k))
	}
	return need
}

// widenedNeed is that of a widenedProduct.
func widenedNeed(ks kernels, m, n, k, bcs int, f16, exact bool) Need {
	need := Need{"half": sizeOf[halfWorkspace]()}
	pitch := func(n int) int { return roundUp(n, pairLanes) + pairLanes }
	floats := func(buf string, n int) { need[buf] = max(need[buf], 4*int64(n)) }
	kind := 0
	if f16 {
		kind = 1
	}
	if s := ks.f32; s != nil && bcs == 1 && m <= 2*streamRows && n >= s.lanes && ks.halfStreams[kind][0] != nil {
		at := min(m, streamRows)
		if at == 3 {
			at = 4
		}
		floats("half.c", runNeed(m, n, k, m, n, k, exact, false))
		whole := n - n%s.lanes
		cols := evenly(whole, 2*streamSums/streamRows, s.lanes)
		floats("half.b", at*gemmDeep)
		floats("half.sums", at*cols)
		floats("half.a", min(m, streamRows)*pitch(min(k, gemmDeep)))
		if whole < n {
			floats("half.a", m*pitch(min(k, gemmDeep)))
			floats("half.b", min(k, gemmDeep)*pitch(n-whole))
			return need.And(floatNeed[float32](s, m, n-whole, min(k, gemmDeep), 1, false))
		}
		return need
	}
	rows, cols, deep := (&widenedProduct[array.Half]{ks: ks, bcs: bcs}).plan(m, n, k)
	floats("half.c", runNeed(m, n, k, rows, cols, deep, exact, false))
	in, jn, kn := min(rows, m), min(cols, n), min(deep, k)
	floats("half.a", in*pitch(kn))
	cs := 1
	if bcs == 1 {
		floats("half.b", kn*pitch(jn))
	} else {
		floats("half.b", jn*pitch(kn))
		cs = pitch(kn)
	}
	return need.And(floatNeed[float32](ks.f32, in, jn, kn, cs, false))
}

// SwiGLUNeed is what GemmSwiGLU takes. `gathered` says that rows are taken from where
// they are, and `kept` that g and u are results.
func SwiGLUNeed[E Number](m, n, k int, transposed, panels, gathered, kept bool) Need {
	l := Left[E]{}
	if gathered {
		l.At = []int32{}
	}
	slots := 2
	if kept {
		slots = 0
	}
	rows := l.rowsAtOnce(m, k)
	need := fusedNeed[E](m, rows, n, k, transposed, panels, slots)
	if gathered {
		need["fused.2"] = int64(min(rows, m)*k) * sizeOf[E]()
	}
	return need
}

// SumNeed is what GemmSum and GemmSwiGLUGrad take.
func SumNeed[E Number](m, n, k int, transposed, panels bool) Need {
	return fusedNeed[E](m, fusedRows(m, k), n, k, transposed, panels, 1)
}

// fusedNeed is that of products of so many rows at once, with results in so many slots.
func fusedNeed[E Number](m, rows, n, k int, transposed, panels bool, slots int) Need {
	ks, _ := selection()
	var b Matrix[E]
	if panels && panelBytes[E](ks, k, n, transposed) > 0 {
		b.mem = []byte{0}
	}
	need := Need{"fused": sizeOf[space]()}
	for _, in := range [2]int{min(rows, m), m % rows} { // the last rows may be in other pieces of columns
		if in == 0 {
			continue
		}
		cols := fusedCols(in, n, b)
		for _, jn := range [2]int{min(cols, n), n % max(cols, 1)} {
			need = need.And(gemmNeed[E, E](ks, in, jn, k, transposed, panels))
			for i := range slots {
				need = need.And(Need{"fused." + string(rune('0'+i)): int64(in*jn) * sizeOf[E]()})
			}
		}
	}
	return need
}

// Need is what an Attender takes for Forward, or with `back` for Backward too.
func (a Attention[T]) Need(back bool) Need { return a.need(vectorsOf[T](), back) }

func (a Attention[T]) need(vec vectors, back bool) Need {
	own, size := "attend."+nameOf[T](), sizeOf[T]()
	need := Need{own: sizeOf[Attender[T]]()}
	if a.S == 0 {
		return need
	}
	add := func(buf string, n int) { need[own+"."+buf] = int64(n) * size }
	wide := roundUp(a.D, vectorLanes)
	if a.D == 0 || vec != avx2 && vec != avx512 {
		const block = attentionBlock
		in := min(block, a.S)
		add("p", block*block)
		add("values", block*a.D)
		products := Need{}
		product := func(m, n, k, bcs int) {
			products = products.And(floatNeed[T](selectedSet[T](), m, n, k, bcs, false))
		}
		for first, rows := range [2]int{(a.S-1)%block + 1, in} { // of the last block, and of the first
			product(rows, in, a.D, 2)
			if !a.Causal || back || first == 0 && a.S > block || a.S >= 2*block {
				product(rows, a.D, in, 1)
			}
		}
		if a.Causal { // a block is multiplied row by row where it is cut
			product(1, a.D, in, 1)
		}
		if back {
			longest := 0
			for n := range a.Parts() {
				from, to := a.Part(n)
				longest = max(longest, to-from)
			}
			add("ds", block*block)
			add("dk", a.S*a.D)
			add("dv", a.S*a.D)
			add("delta", longest)
		}
		for buf, bytes := range products {
			if buf != nameOf[T]() { // the workspace is part of the attender
				need["attend."+buf] = bytes
			}
		}
		return need
	}
	width := roundUp(min(laneQueries, a.S), vectorLanes)
	rows := roundUp(a.S, 8) * wide
	add("k", rows)
	add("v", rows)
	add("qt", a.D*width)
	add("sums", wide*width)
	add("p", laneKeys*width)
	if back {
		add("dk", rows)
		add("dv", rows)
		add("q", width*wide)
		add("g", width*wide)
		add("gt", a.D*width)
		add("ds", laneKeys*width)
	}
	return need
}
