package tcp_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/jaccl/job/meet"
	"github.com/gomoe/gomoe/jaccl/job/watch"
	"github.com/gomoe/gomoe/jaccl/link/tcp"
)

// Three ranks, which could as well be processes on three machines, meet, connect and
// add up a vector.
func Example() {
	coordinator, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	job, secret := uuid.New(), []byte("what a launcher draws and hands to all ranks")
	var ranks sync.WaitGroup
	for rank := range 3 {
		ranks.Go(func() {
			o := meet.Options{
				Rank: rank, Size: 3, Coordinator: coordinator.Addr().String(), Job: job, Secret: secret,
				Facts: []meet.Fact{{Name: "mesh", Value: "ep=3"}},
			}
			if rank == 0 {
				o.Listener = coordinator
			}
			if err := sum(context.Background(), o); err != nil {
				fmt.Println("rank", rank, err)
			}
		})
	}
	ranks.Wait()
	// Output: rank 0 has 1 + 2 + 3 = 6
}

func sum(ctx context.Context, o meet.Options) error {
	place, err := meet.Join(ctx, o)
	if err != nil {
		return err
	}
	defer place.Close()
	w, err := watch.Start(ctx, place, watch.Options{Silence: time.Minute})
	if err != nil {
		return err
	}
	l, err := tcp.Connect(ctx, place)
	if err != nil {
		w.Close()
		return err
	}
	c, err := engine.Connect(l, w, jaccl.Options{Deadline: time.Minute})
	if err != nil {
		return err
	}
	defer c.Close()
	x := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(o.Rank+1)))
	if err := c.World().AllSum(ctx, collective.Call{Op: "all_sum", DType: graph.F32, Bytes: 4}, x, x); err != nil {
		return err
	}
	if o.Rank == 0 {
		fmt.Println("rank 0 has 1 + 2 + 3 =", math.Float32frombits(binary.LittleEndian.Uint32(x)))
	}
	// Nobody leaves while another still waits for it.
	return c.World().Barrier(ctx, collective.Call{Op: "barrier", Seq: 1})
}
