package train

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/runtime"
)

// Parts are the inputs of a step by name, each as a function writing a part of it; see runtime.Session.PutParts. A
// process calls them for its own ranks' parts, such as the batch rows those ranks train on. Even with microbatches,
// Whole is the type of the whole batch.
type Parts map[string]func(runtime.Part) error

// Whole returns Parts reading from arrays, which must have the types of the inputs.
func Whole(arrays map[string]array.Array) Parts {
	parts := Parts{}
	for name, a := range arrays {
		parts[name] = func(p runtime.Part) error {
			if !p.Whole.Equal(a.Type) {
				return fmt.Errorf("%s is %s, want %s", name, a.Type, p.Whole)
			}
			array.CopyBox(p.Array, nil, a, p.Start, p.Type.Shape)
			return nil
		}
	}
	return parts
}

// put passes the parts of p's inputs to a job.
func (x Parts) put(job *gomoe.Job, p *Program, to map[string]*runtime.Array) (err error) {
	for _, name := range slices.Sorted(maps.Keys(x)) {
		fill := x[name]
		if slices.Contains(p.batch, name) {
			fill = rowwise(fill)
		}
		if to[name], err = job.PutParts(name, fill); err != nil {
			return err
		}
	}
	return nil
}

// rowwise adapts fill, which writes rows of the batch [n·B,..], to write parts of microbatches [n,B,..] in order.
func rowwise(fill func(runtime.Part) error) func(runtime.Part) error {
	return func(p runtime.Part) error {
		whole := p.Whole.Shape
		rows := graph.Type{DType: p.Whole.DType, Shape: append([]int{whole[0] * whole[1]}, whole[2:]...)}
		for i := range p.Type.Shape[0] {
			one := p.Array.Rows(i, i+1).Reshape(p.Type.Shape[1:]...)
			start := append([]int{(p.Start[0]+i)*whole[1] + p.Start[1]}, p.Start[2:]...)
			if err := fill(runtime.Part{Rank: p.Rank, Whole: rows, Start: start, Array: one}); err != nil {
				return err
			}
		}
		return nil
	}
}
