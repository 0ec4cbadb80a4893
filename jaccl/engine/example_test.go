package engine_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
)

// Four ranks add their numbers; ranks 1 and 3 then disagree on what comes next.
func ExampleLocal() {
	comms, err := engine.Local(4, jaccl.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sums := make([]array.Array, 4)
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for rank, c := range comms {
		wg.Go(func() { sums[rank], errs[rank] = step(context.Background(), c) })
	}
	wg.Wait()
	for rank := range comms {
		fmt.Println(rank, array.Data[float32](sums[rank]), errs[rank])
	}
	// Output:
	// 0 [6 40] <nil>
	// 1 [6 40] rank 3 calls barrier #3 none 0 bytes (model.go:8) where rank 1 calls barrier #1 none 0 bytes (model.go:8); seen by rank 1 in barrier #1 none 0 bytes (model.go:8)
	// 2 [6 40] <nil>
	// 3 [6 40] rank 3 calls barrier #3 none 0 bytes (model.go:8) where rank 1 calls barrier #1 none 0 bytes (model.go:8); seen by rank 3 in barrier #3 none 0 bytes (model.go:8)
}

func step(ctx context.Context, c collective.Communicator) (array.Array, error) {
	a, err := array.Of([]float32{float32(c.Rank()), 10}, 2)
	if err != nil {
		return a, err
	}
	all, err := c.Group([]int{0, 1, 2, 3})
	if err != nil {
		return a, err
	}
	sum := collective.Call{Op: "all_sum", DType: graph.F32, Bytes: 8, Pos: graph.Pos{File: "model.go", Line: 7}}
	if err := all.AllSum(ctx, sum, a.Bytes(), a.Bytes()); err != nil {
		return a, err
	}
	if c.Rank()%2 == 0 {
		return a, nil
	}
	odd, err := c.Group([]int{1, 3})
	if err != nil {
		return a, err
	}
	return a, odd.Barrier(ctx, collective.Call{Op: "barrier", Seq: c.Rank(), Pos: graph.Pos{File: "model.go", Line: 8}})
}
