package collective_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
)

// Three ranks, here goroutines, add up a number each.
func Example() {
	ranks, err := engine.Local(3, jaccl.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sums := make([]string, len(ranks))
	var running sync.WaitGroup
	for rank, c := range ranks {
		running.Go(func() { sums[rank] = sum(c, uint32(10*rank+1)) })
	}
	running.Wait()
	fmt.Println(sums)
	// Output: [33 33 33]
}

// sum is what every rank does. It knows the interfaces only.
func sum(c collective.Communicator, x uint32) string {
	defer c.Close()
	g, err := c.Group([]int{0, 1, 2})
	if err != nil {
		return err.Error()
	}
	b := binary.NativeEndian.AppendUint32(nil, x)
	if err := g.AllSum(context.Background(), collective.Call{Op: "all_sum", DType: graph.U32, Bytes: 4}, b, b); err != nil {
		return err.Error()
	}
	return fmt.Sprint(binary.NativeEndian.Uint32(b))
}
