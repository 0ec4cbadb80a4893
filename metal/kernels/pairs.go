package kernels

import (
	"math/bits"

	"github.com/gomoe/gomoe/graph"
)

// threadgroupMemory is the largest threadgroup memory of a threadgroup, in bytes.
const threadgroupMemory = 32 << 10

// memory returns the lengths of one threadgroup memory argument of the given number of 4-byte
// words. The error describes the memory as what.
func memory(words int, what string) ([]int, error) {
	n := max(4*words+15, 16) / 16 * 16 // an empty argument has a length, too
	if n > threadgroupMemory {
		return nil, refuse("%s take %d bytes of threadgroup memory, of which there are %d", what, n, threadgroupMemory)
	}
	return []int{n}, nil
}

const (
	// oneSegment is the largest number of pairs handled by one simdgroup alone, which saves two
	// launches.
	oneSegment = 512
	// mostSegments is the number of segments into which a larger number of pairs is divided.
	mostSegments = 1024
)

// pairs are the choices of a rank's tokens, divided into segments. One simdgroup handles one
// segment: see histogram.metal.
type pairs struct {
	n, stride int // in elements: the expert of pair i is at i·stride
	first     int // the first expert to count
	experts   int // the number of experts to count
	each      int // pairs per segment
	segments  int
	suffix    string // of functions for the element type
	bins      []int  // threadgroup memory
}

// pairsOf returns the pairs of an operand of type t, i32 or i64, with stride elements per pair. It
// counts pairs choosing one of the given number of experts, starting with first.
func pairsOf(t graph.Type, stride, first, experts int) (*pairs, error) {
	p := &pairs{n: t.Len() / stride, stride: stride, first: first, experts: experts, suffix: "_" + t.DType.String()}
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

// params returns the parameters struct pairs_params.
func (p *pairs) params() Arg {
	return Params(p.n, p.each, p.segments, p.stride, p.first, p.experts, uint32(bits.Len(uint(max(p.experts-1, 0)))))
}

// counts returns the size in bytes of the counts of all segments.
func (p *pairs) counts() int { return 4 * p.experts * p.segments }

// histogram returns the launches counting ids per segment. A scan then turns counts into the number
// of pairs in earlier segments, and sets totals to the number in all segments. counts and totals
// are ordered by expert. file contains the functions.
func (p *pairs) histogram(file string, ids, counts, totals Arg) []Launch {
	return []Launch{p.launch(file, "histogram"+p.suffix, ids, counts), p.scan(file, counts, totals)}
}

// scanTogether is the number of lines scanned per threadgroup, with one simdgroup each.
const scanTogether = 4

// scan returns the launch turning counts of segments into the counts of earlier segments, and
// setting totals.
func (p *pairs) scan(file string, counts, totals Arg) Launch {
	return Launch{
		Source: Source{File: file}, Function: "scan_lines",
		Args:   []Arg{counts, totals, Params(p.experts, p.segments)},
		Groups: [3]int{(p.experts + scanTogether - 1) / scanTogether, 1, 1}, Threads: [3]int{32 * scanTogether, 1, 1},
	}
}

// launch returns a launch with one simdgroup per segment. The last argument is params.
func (p *pairs) launch(file, function string, args ...Arg) Launch {
	return Launch{
		Source: Source{File: file}, Function: function, Args: append(args, p.params()),
		Memory: p.bins, Groups: [3]int{p.segments, 1, 1}, Threads: [3]int{32, 1, 1},
	}
}

// pairFunctions returns the functions of histogram and scan, and more.
func pairFunctions(more ...Function) []Function {
	return append([]Function{
		{"histogram_i32", 32, threadgroupMemory}, {"histogram_i64", 32, threadgroupMemory}, {"scan_lines", 32 * scanTogether, 0},
	}, more...)
}
