package kernels

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// around returns the numbers of elements before, along and behind an axis.
func around(t graph.Type, axis int) (outer, n, inner int) {
	outer, inner = 1, 1
	for d, s := range t.Shape {
		switch {
		case d < axis:
			outer *= s
		case d > axis:
			inner *= s
		}
	}
	return outer, t.Shape[axis], inner
}

// indexLaunch is a launch of indices.metal with a thread for each of n.
func indexLaunch(function string, n int, args ...Arg) Launch {
	l := Launch{Source: Source{File: "indices.metal"}, Function: function, Args: args}
	l.Groups, l.Threads = line(n)
	return l
}

// checkThreads is the threadgroup that checks indices.
const checkThreads = 256

// checked is the launch that finds the first of argument i, n indices, below lo or not
// below hi.
func checked(i, n, lo, hi int) Launch {
	l := indexLaunch("check_indices", 1, In(i), Status(), Params(n, lo, hi))
	l.Groups, l.Threads = [3]int{1, 1, 1}, [3]int{checkThreads, 1, 1}
	l.Memory = []int{4 * checkThreads}
	return l
}

// listed are launches that make lists of those of argument i, n indices, that name each
// of size places, in their order, in scratch 0 and 1: where the list of each place begins
// and what follows each index; n is the end of a list.
func listed(i, n, size int) (ls []Launch, scratch []int) {
	p := Params(size, n)
	ls = []Launch{
		indexLaunch("list_clear", size, Scratch(0), p),
		indexLaunch("list_begin", n, In(i), Scratch(0), p),
		indexLaunch("list_next", n, In(i), Scratch(1), p),
	}
	return ls, []int{4 * max(size, 1), 4 * max(n, 1)}
}

// indexFunctions are those of indices.metal.
func indexFunctions() []Function {
	return []Function{
		{Name: "check_indices", Threads: checkThreads, Memory: 4 * checkThreads},
		{Name: "list_clear", Threads: lineThreads}, {Name: "list_begin", Threads: lineThreads}, {Name: "list_next", Threads: lineThreads},
	}
}

// idFault is the host's error for an id, of argument i, below 0 or not below n.
func (in *Instr) idFault(i, n int) func([StatusLen]int32) error {
	ids, spec := in.Args[i].Type, in.plan.Bufs[in.Args[i].Buf].Spec
	a := in.host()
	return func(r [StatusLen]int32) error {
		return primitives.EmbeddingOp{}.NoRow(a, spec, ids, int(r[0]), r[1], n)
	}
}

// rangeFault is that for an index.
func rangeFault(n int) func([StatusLen]int32) error {
	return func(r [StatusLen]int32) error { return primitives.GatherOp{}.OutOfRange(r[1], int(r[0]), n) }
}

// axisFault is that for indices of type t along an axis of n.
func axisFault(t graph.Type, axis, n int) func([StatusLen]int32) error {
	return func(r [StatusLen]int32) error {
		return primitives.TakeAlongAxisOp{Axis: axis}.OutOfRange(t, r[1], int(r[0]), n)
	}
}

// sized are functions of several element sizes.
func sized(sizes []int, names ...string) []Function {
	var fs []Function
	for _, name := range names {
		for _, s := range sizes {
			fs = append(fs, Function{Name: fmt.Sprintf("%s_%d", name, s), Threads: lineThreads})
		}
	}
	return fs
}
