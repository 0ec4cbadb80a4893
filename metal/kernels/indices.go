package kernels

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// indexLaunch returns a launch of a function of indices.metal with n threads.
func indexLaunch(function string, n int, args ...Arg) Launch {
	l := Launch{Source: Source{File: "indices.metal"}, Function: function, Args: args}
	l.Groups, l.Threads = line(n)
	return l
}

// checkThreads is the size of the threadgroup checking indices.
const checkThreads = 256

// checked returns the launch finding the first of the n indices in argument i outside of [lo, hi).
func checked(i, n, lo, hi int) Launch {
	l := indexLaunch("check_indices", 1, In(i), Status(), Params(n, lo, hi))
	l.Groups, l.Threads = [3]int{1, 1, 1}, [3]int{checkThreads, 1, 1}
	l.Memory = []int{4 * checkThreads}
	return l
}

// listed returns the launches making, for each of size places, the list of the indices in argument
// i naming this place, in their order. Argument i has n indices. Scratch 0 holds the beginning of
// each place's list, scratch 1 the successor of each index; n ends a list.
func listed(i, n, size int) (ls []Launch, scratch []int) {
	p := Params(size, n)
	link := indexLaunch("list_link", 1, In(i), Scratch(0), Scratch(1), p)
	link.Groups, link.Threads, link.Memory = [3]int{1, 1, 1}, [3]int{checkThreads, 1, 1}, []int{4 * checkThreads}
	ls = []Launch{indexLaunch("list_clear", size, Scratch(0), p), link}
	return ls, []int{4 * max(size, 1), 4 * max(n, 1)}
}

// checkFunctions returns the function of checked.
func checkFunctions() []Function {
	return []Function{{Name: "check_indices", Threads: checkThreads, Memory: 4 * checkThreads}}
}

// indexFunctions returns the functions of indices.metal.
func indexFunctions() []Function {
	return append(checkFunctions(), Function{Name: "list_clear", Threads: lineThreads}, Function{Name: "list_link", Threads: checkThreads, Memory: 4 * checkThreads})
}

// idFault returns the host's error for an id in argument i outside of [0, n).
func (in *Instr) idFault(i, n int) func([StatusLen]int32) error {
	ids, spec := in.plan.Bufs[in.Args[i].Buf].Global, in.spec(in.Args[i].Buf)
	a := in.host()
	return func(r [StatusLen]int32) error {
		return primitives.EmbeddingOp{}.NoRow(a, spec, ids, int(r[0]), r[1], n)
	}
}

// rangeFault returns the host's error for an index out of range.
func rangeFault(n int) func([StatusLen]int32) error {
	return func(r [StatusLen]int32) error { return primitives.GatherOp{}.OutOfRange(r[1], int(r[0]), n) }
}

// axisFault returns the host's error for indices of type t along an axis of n elements.
func axisFault(t graph.Type, axis, n int) func([StatusLen]int32) error {
	return func(r [StatusLen]int32) error {
		return primitives.TakeAlongAxisOp{Axis: axis}.OutOfRange(t, r[1], int(r[0]), n)
	}
}

// sized returns functions that exist for several element sizes.
func sized(sizes []int, names ...string) []Function {
	var fs []Function
	for _, name := range names {
		for _, s := range sizes {
			fs = append(fs, Function{Name: fmt.Sprintf("%s_%d", name, s), Threads: lineThreads})
		}
	}
	return fs
}
