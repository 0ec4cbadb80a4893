package kernels

import (
	"math/bits"

	"github.com/gomoe/gomoe/graph"
)

// threadgroupMemory is how many bytes of it a threadgroup has at most.
const threadgroupMemory = 32 << 10

// memory returns the lengths of one argument of threadgroup memory with so many elements
// of 4 bytes, for what is said.
func memory(words int, what string) ([]int, error) {
	n := (4*words + 15) / 16 * 16
	if n > threadgroupMemory {
		return nil, refuse("%s take %d bytes of threadgroup memory, of which there are %d", what, n, threadgroupMemory)
	}
	return []int{n}, nil
}

const (
	// oneSegment is up to how many pairs one simdgroup does alone, which saves two
	// launches.
	oneSegment = 512
	// mostSegments is the number of segments that more pairs are cut into.
	mostSegments = 1024
)

// pairs are the choices of a rank's tokens, cut into segments of which a simdgroup does
// each: see histogram.metal.
type pairs struct {
	n, stride int // of elements: expert of pair i is at i·stride
	experts   int
	each      int // pairs of a segment
	segments  int
	suffix    string // of functions for the element type
	bins      []int  // threadgroup memory
}

// pairsOf returns those of t, which are i32 or i64, stride of them for each pair.
func pairsOf(t graph.Type, stride, experts int) (*pairs, error) {
	p := &pairs{n: t.Len() / stride, stride: stride, experts: experts, suffix: "_" + t.DType.String()}
	if t.DType != graph.I32 && t.DType != graph.I64 {
		return nil, refuse("experts of type %s, want i32 or i64", t.DType)
	}
	var err error
	if p.bins, err = memory(experts, "counts of experts"); err != nil {
		return nil, err
	}
	p.each = max(oneSegment, (p.n+mostSegments-1)/mostSegments)
	p.each = (p.each + 31) / 32 * 32
	p.segments = max(1, (p.n+p.each-1)/p.each)
	return p, nil
}

// params returns the struct pairs_params.
func (p *pairs) params() Arg {
	return Params(p.n, p.each, p.segments, p.stride, 0, p.experts, uint32(bits.Len(uint(p.experts-1))))
}

// counts is the size in bytes of the counts of all segments.
func (p *pairs) counts() int { return 4 * p.experts * p.segments }

// histogram counts ids in segments, which scan then makes the pairs in the segments before,
// and totals those in all. counts, which both have, is expert by expert. file has the
// functions.
func (p *pairs) histogram(file string, ids, counts, totals Arg) []Launch {
	return []Launch{p.launch(file, "histogram"+p.suffix, ids, counts), p.scan(file, counts, totals)}
}

// scanTogether is how many lines are scanned by one threadgroup, a simdgroup each.
const scanTogether = 4

// scan makes counts of segments the pairs in those before, and totals the pairs in all.
func (p *pairs) scan(file string, counts, totals Arg) Launch {
	return Launch{
		Source: Source{File: file}, Function: "scan_lines",
		Args:   []Arg{counts, totals, Params(p.experts, p.segments)},
		Groups: [3]int{(p.experts + scanTogether - 1) / scanTogether, 1, 1}, Threads: [3]int{32 * scanTogether, 1, 1},
	}
}

// launch returns that of a kernel of which a simdgroup does each segment; the last argument is
// params.
func (p *pairs) launch(file, function string, args ...Arg) Launch {
	return Launch{
		Source: Source{File: file}, Function: function, Args: append(args, p.params()),
		Memory: p.bins, Groups: [3]int{p.segments, 1, 1}, Threads: [3]int{32, 1, 1},
	}
}

// pairFunctions are those of histogram and scan.
func pairFunctions(more ...Function) []Function {
	return append([]Function{
		{"histogram_i32", 32, threadgroupMemory}, {"histogram_i64", 32, threadgroupMemory}, {"scan_lines", 32 * scanTogether, 0},
	}, more...)
}
