package kernels

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
)

// As in attention.metal.
const (
	attentionRows    = 32
	attentionThreads = 128
)

// As in attention_decode.metal.
const (
	decodeKeys    = 256
	decodeThreads = 256
)

// decodeQueries is the largest number of queries for which attention is split over the keys.
const decodeQueries = 4

// headSizes returns the head sizes that attention is compiled for.
func headSizes() []int { return []int{32, 64, 96, headMost} }

// wide returns the smallest of headSizes holding the heads.
func (h heads) wide() int {
	for _, n := range headSizes() {
		if max(h.d, h.v) <= n {
			return n
		}
	}
	return headMost
}

func attentionForward() (fs []Function) {
	for _, n := range headSizes() {
		for _, suffix := range headTypes() {
			fs = append(fs, Function{Name: fmt.Sprintf("attention_%d_%s", n, suffix), Threads: attentionThreads, Memory: attentionMemory(n)})
		}
	}
	return fs
}

// headTypes returns the element types that attention is compiled for, as suffixes of functions.
func headTypes() []string { return []string{"f32", "f16", "bf16"} }

// attentionMemory returns the threadgroup memory of two tiles of rows, 16 of f32 or 32 of 16 bits.
func attentionMemory(head int) int { return 2 * 64 * (head + 8) }

func decodeFunctions() []Function {
	fs := []Function{{Name: "attention_join", Threads: 32}}
	for _, n := range headSizes() {
		for _, group := range []int{1, 8} {
			fs = append(fs, Function{Name: fmt.Sprintf("attention_decode_%d_%d", n, group), Threads: decodeThreads, Memory: decodeThreads / 32 * (n + 2) * 4})
		}
	}
	return fs
}

// decode returns the program for few queries: one launch for parts of the keys, and one combining
// their results.
func (h heads) decode(t terms, params Arg) (*Program, error) {
	if h.n == 0 || h.s == 0 || h.b == 0 {
		return &Program{}, nil
	}
	group, others := 1, 1
	if h.group > 1 {
		group = 8
	}
	first := h.off / h.group
	others = (h.off+h.n-1)/h.group - first + 1
	passes, parts, wide := pieces(min(h.group, h.n), group), max(pieces(h.r, decodeKeys), 1), h.wide()
	split := Params(parts, first, passes)
	p := t.program(
		Launch{
			Source: Source{File: "attention_decode.metal"}, Function: fmt.Sprintf("attention_decode_%d_%d", wide, group), Constants: map[int]any{},
			Args:   []Arg{In(0), In(1), In(2), Scratch(0), t.lengths, t.start, t.bias, params, t.params, split},
			Groups: [3]int{parts, others * passes, h.b * h.s}, Threads: [3]int{decodeThreads, 1, 1},
		},
		Launch{
			Source: Source{File: "attention_decode.metal"}, Function: "attention_join", Constants: map[int]any{},
			Args:   []Arg{Scratch(0), Out(0), Out(1), t.sinks, params, t.params, split, Params(wide)},
			Groups: [3]int{h.s, h.n, h.b}, Threads: [3]int{32, 1, 1},
		})
	p.Scratch = []int{h.b * h.n * h.s * parts * (wide + 2) * graph.F32.Size()}
	return p, nil
}
