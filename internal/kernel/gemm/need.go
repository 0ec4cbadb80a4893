package gemm

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/kernel"
)

// NameOf returns the name of buffers with elements of type T.
func NameOf[T any]() string {
	switch any(*new(T)).(type) {
	case float32:
		return "f32"
	case float64:
		return "f64"
	}
	return "half"
}

func sizeOf[T any]() int64 { return int64(unsafe.Sizeof(*new(T))) }

// MultiplyNeed is what Multiply, or MultiplyHalf, of m by n by k takes, whose b has contiguous rows
// unless it is transposed, and panels if `panels` is set. R is the result's type.
func MultiplyNeed[E, R Number](m, n, k int, transposed, panels bool) kernel.Need {
	ks := selected()
	return gemmNeed[E, R](ks, m, n, k, transposed, panels)
}

func gemmNeed[E, R Number](ks kernels, m, n, k int, transposed, panels bool) kernel.Need {
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

// FloatNeed is what Workspace.Multiply takes, of b whose columns are bcs apart.
func FloatNeed[T kernel.Float](m, n, k, bcs int) kernel.Need {
	return floatNeed[T](selectedSet[T](), m, n, k, bcs, false)
}

// floatNeed returns what Workspace.multiply takes.
func floatNeed[T kernel.Float](s *set, m, n, k, bcs int, panels bool) kernel.Need {
	own := NameOf[T]()
	need := func(a, b, sums int) kernel.Need {
		return kernel.Need{own: sizeOf[Workspace[T]](), own + ".a": int64(a) * sizeOf[T](), own + ".b": int64(b) * sizeOf[T](), own + ".sums": int64(sums) * sizeOf[T]()}
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
		streamed := need(rows*min(k, gemmDeep), 0, rows*kernel.Evenly(whole, streamSums/rows, s.lanes))
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
	a = kernel.RoundUp(min(rows, m), s.rows) * min(k, gemmDeep)
	switch {
	case panels:
	case bcs == 1 && m <= min(rows, s.direct):
		b = wide * min(k, gemmDeep)
	default:
		b = min(kernel.Evenly(n, s.panels*wide, wide), kernel.RoundUp(n, s.lanes)) * min(k, blockDeep)
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

// pairsNeed returns what a pairProduct takes.
func pairsNeed(s *halfSet, m, n, k, bcs int, panels, exact bool) kernel.Need {
	p := pairProduct{w: &halfWorkspace{}, s: s, bcs: bcs, dry: true}
	if panels {
		p.panels = Panels{mem: []byte{0}, k: k, n: n}
	}
	rows, cols, deep := p.plan(m, n, k)
	need := kernel.Need{"half": sizeOf[halfWorkspace]()}
	rounds := !exact && p.rounds(k, nil)
	need["half.c"] = 4 * int64(runNeed(m, n, k, rows, cols, deep, exact, rounds))
	copies := func(n, deep int) int64 { return 4 * int64(kernel.RoundUp(n, pairLanes)*s.depth(deep)/2) }
	switch {
	case p.stream:
		at := min(m, streamRows)
		if at == 3 {
			at = 4
		}
		whole := n &^ (streamLanes - 1)
		need["half.pa"] = 4 * int64(at*s.deep/2)
		need["half.sums"] = 4 * int64(at*kernel.Evenly(whole, 2*streamSums/streamRows, streamLanes))
		if whole < n {
			need["half.pa"] = max(need["half.pa"], 4*int64(kernel.RoundUp(m, s.most)*s.depth(min(k, s.deep))/2))
			need["half.pb"] = copies(n-whole, min(k, 4*s.deep))
		}
		if k%2 > 0 {
			need["half.pb"] = max(need["half.pb"], 4*int64(min(whole, kernel.Evenly(whole, 2*streamSums/streamRows, streamLanes))))
		}
		return need
	case p.keep:
		need["half.pa"] = 4 * int64(kernel.RoundUp(m, s.most)*s.depth(k)/2)
	default:
		need["half.pa"] = 4 * int64(kernel.RoundUp(min(rows, m), s.most)*s.depth(min(k, s.deep))/2)
	}
	if !panels {
		need["half.pb"] = copies(min(cols, n), min(deep, k))
	}
	return need
}

// widenedNeed returns what a widenedProduct takes.
func widenedNeed(ks kernels, m, n, k, bcs int, f16, exact bool) kernel.Need {
	need := kernel.Need{"half": sizeOf[halfWorkspace]()}
	pitch := func(n int) int { return kernel.RoundUp(n, pairLanes) + pairLanes }
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
		cols := kernel.Evenly(whole, 2*streamSums/streamRows, s.lanes)
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

// SwiGLUNeed is what SwiGLU takes. `gathered` says that rows are taken from where
// they are, and `kept` that g and u are results.
func SwiGLUNeed[E Number](m, n, k int, transposed, panels, gathered, kept bool) kernel.Need {
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

// SumNeed is what Sum and SwiGLUGrad take.
func SumNeed[E Number](m, n, k int, transposed, panels bool) kernel.Need {
	return fusedNeed[E](m, fusedRows(m, k), n, k, transposed, panels, 1)
}

// fusedNeed returns what fused products take that multiply `rows` rows at once and keep
// results in `slots` slots.
func fusedNeed[E Number](m, rows, n, k int, transposed, panels bool, slots int) kernel.Need {
	ks := selected()
	var b Matrix[E]
	if panels && panelBytes[E](ks, k, n, transposed) > 0 {
		b.mem = []byte{0}
	}
	need := kernel.Need{"fused": sizeOf[space]()}
	for _, in := range [2]int{min(rows, m), m % rows} { // the last rows may be in other pieces of columns
		if in == 0 {
			continue
		}
		cols := fusedCols(in, n, b)
		for _, jn := range [2]int{min(cols, n), n % max(cols, 1)} {
			need = need.And(gemmNeed[E, E](ks, in, jn, k, transposed, panels))
			for i := range slots {
				need = need.And(kernel.Need{"fused." + string(rune('0'+i)): int64(in*jn) * sizeOf[E]()})
			}
		}
	}
	return need
}
