package kernels

import (
	"fmt"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
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

// indexFault returns the host's error for an index in argument i that is not below n.
func (in *Instr) indexFault(i, n int) func([StatusLen]int32) error {
	indices, spec, a := in.plan.Bufs[in.Args[i].Buf].Global, in.spec(in.Args[i].Buf), in.host()
	return func(r [StatusLen]int32) error {
		p, ok := in.Prim.(interface {
			BadIndex(a *exec.Args, s sharding.Spec, t graph.Type, flat int, index int32, n int) error
		})
		if !ok {
			return fmt.Errorf("index %d is not below %d", r[1], n)
		}
		return p.BadIndex(a, spec, indices, int(r[0]), r[1], n)
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
