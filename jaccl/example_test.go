package jaccl_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
)

// Two ranks exchange one byte with each other while they do other work: a RequestQueue runs
// the operations in order, and the rank waits for a Request where it needs the result.
func ExampleRequestQueue() {
	ranks, err := engine.Local(2, jaccl.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	got := make([]string, 2)
	var running sync.WaitGroup
	for rank, c := range ranks {
		running.Go(func() {
			defer c.Close()
			var q jaccl.RequestQueue
			defer q.Close()
			out, in := []byte{byte('a' + rank)}, make([]byte, 2)
			request := q.Do(context.Background(), func(ctx context.Context) error {
				return c.World().AllGather(ctx, collective.Call{Op: "all_gather", DType: graph.U8, Bytes: 1}, in, out)
			})
			err := request.Wait(context.Background())
			got[rank] = fmt.Sprintf("%s %v", in, err)
		})
	}
	running.Wait()
	fmt.Println(got)
	// Output: [ab <nil> ab <nil>]
}
