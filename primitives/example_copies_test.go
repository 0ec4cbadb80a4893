package primitives_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

// Half of the pairs choose expert 0. Four ranks hold 8 copies of 6 experts: first one copy of
// each and two that are left over, then copies that balance the load that was measured. The
// program and its plan stay as they are, and so does the result.
func ExampleCopies() {
	const tokens, hidden, experts, copies, ranks = 64, 4, 6, 8, 4
	p, err := graph.Trace("layer", func(t *graph.Tracer) []*graph.Value {
		x, w := t.Input("x", graph.F32, tokens, hidden), t.Input("w", graph.F32, experts, hidden, hidden)
		of := t.Input("copies", graph.I32, copies)

		r := primitives.Prepare(primitives.PrepareOp{Experts: experts}, t.Input("experts", graph.I32, tokens, 2))
		r = primitives.Copies(r, of)
		each := primitives.Gather(primitives.ShardingConstraint(w), primitives.ShardingConstraint(of, "ep"), 0) // the weights of a rank's copies
		y := primitives.Combine(r, primitives.GroupedMatMul(r, primitives.Dispatch(r, x), each))
		return []*graph.Value{y, r.Demand, r.Counts}
	})
	if err != nil {
		log.Fatal(err)
	}
	mesh, err := sharding.ParseMesh("ep=4")
	if err != nil {
		log.Fatal(err)
	}
	split := sharding.Split("ep")
	job, err := gomoe.Open(context.Background(), p, gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"x": split, "experts": split, "w": split}})
	if err != nil {
		log.Fatal(err)
	}
	defer job.Close()

	in := map[string]array.Array{"copies": array.New(graph.T(graph.I32, copies))}
	for _, v := range p.In[:2] {
		a := array.New(v.Type)
		for i := range array.Data[float32](a) {
			array.Data[float32](a)[i] = float32(i%7) - 3
		}
		in[v.Name] = a
	}
	chosen := array.New(graph.T(graph.I32, tokens, 2))
	for i := range tokens {
		array.Data[int32](chosen)[2*i+1] = int32(1 + i%(experts-1)) // the first choice is 0
	}
	in["experts"] = chosen

	held := ep.EqualSplit(copies, ranks)
	of := ep.Copies{0, 1, 2, 3, 4, 5, 4, 5}
	var before array.Array
	for step := range 2 {
		copy(array.Data[int32](in["copies"]), of)
		out, err := job.Step(context.Background(), in)
		if err != nil {
			log.Fatal(err)
		}
		demand, counts := array.Data[int32](out[1]), array.Data[int32](out[2])
		rows := make([]int32, ranks)
		for r := range rows {
			for c := held[r]; c < held[r+1]; c++ {
				rows[r] += counts[c]
			}
		}
		fmt.Println("copies of experts", of, "rows of ranks", rows)
		if step > 0 {
			fmt.Println("same bits:", array.Equal(before, out[0]))
		}
		before = out[0]
		if of, err = ep.BalanceCopies(ep.Measure(demand, demand).Share, held); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// copies of experts [0 1 2 3 4 5 4 5] rows of ranks [77 26 13 12]
	// copies of experts [0 3 0 4 0 5 1 2] rows of ranks [35 34 33 26]
	// same bits: true
}
