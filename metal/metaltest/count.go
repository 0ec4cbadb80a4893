package metaltest

import (
	"testing"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal/counts"
	"github.com/gomoe/gomoe/metal/kernels"
)

// Work is the work of an instruction on the emulated GPU.
type Work struct {
	Name    string
	Program *kernels.Program
	Counts  []counts.Counts // of each of the program's launches
}

// Sum returns the counts of all launches.
func (w Work) Sum() (all counts.Counts) {
	for _, c := range w.Counts {
		all.Add(c)
	}
	return all
}

// Argument returns the traffic of an argument of the instruction.
func (w Work) Argument(i int) (all counts.Traffic) {
	for l, c := range w.Counts {
		for j, a := range w.Program.Launches[l].Args {
			if a.Kind == kernels.OfIn && a.Index == i {
				all.Add(c.Buffers[j])
			}
		}
	}
	return all
}

// Count runs p once as Check does, in one mode that counts, and returns the device's work for each
// instruction of the given name: in the plan's order, and of all ranks.
func Count(t testing.TB, p *graph.Program, cfg gomoe.Config, in map[string]array.Array, name string) []Work {
	t.Helper()
	return count(t, p, cfg, in, name, real())
}

// CountTensors is Count on a GPU with tensor operations.
func CountTensors(t testing.TB, p *graph.Program, cfg gomoe.Config, in map[string]array.Array, name string) []Work {
	t.Helper()
	return count(t, p, cfg, in, name, withTensors())
}

func count(t testing.TB, p *graph.Program, cfg gomoe.Config, in map[string]array.Array, name string, from backend) []Work {
	t.Helper()
	from.modes = []mode{counted}
	var named []Work
	for _, w := range check(t, p, cfg, in, Options{Instructions: []string{name}}, from) {
		if w.Name == name {
			named = append(named, w)
		}
	}
	return named
}
