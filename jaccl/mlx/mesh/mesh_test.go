package mesh

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/rdma/rdmatest"
)

// How many messages go from one rank to another, worked out by hand from JACCL's
// mesh_impl.h: ranks of this package alone would agree on any numbers.
func TestMessages(t *testing.T) {
	for _, c := range []struct {
		n, bytes   int
		op         string
		framesOnly bool
		want       []int // on each wire
	}{
		{3, 4, "all_sum", false, []int{1}},
		{3, 32768, "all_sum", false, []int{1}},     // one of 32 KiB
		{3, 32772, "all_sum", false, []int{2 + 2}}, // chunks of 10924 bytes, in messages of 8 KiB
		{3, 32776, "all_sum", false, []int{2 + 2 + 1}},
		{3, 32776, "all_max", false, []int{2 + 2 + 1}},
		{2, 32776, "all_min", false, []int{2}}, // of 32 KiB
		{2, 100000, "all_sum", false, []int{2}},
		{2, 100000, "all_sum", true, []int{25}},
		{3, 0, "all_sum", false, []int{0}},
		{3, 5000, "all_gather", false, []int{2}},
		{3, 8191, "all_gather", false, []int{2}},
		{3, 8192, "all_gather", false, []int{1}},
		{3, 70000, "all_gather", false, []int{2}},
		{3, 70000, "all_gather", true, []int{18}},
		{3, 600000, "reduce_scatter", false, []int{2}},
		{3, 4 << 20, "reduce_scatter", false, []int{8}},
		{2, 0, "barrier", false, []int{1}},
		{3, 524284, "all_sum", false, []int{2 + 2 + 1, 0}},                    // too little for two wires
		{3, 524288, "all_sum", false, []int{2 + 2 + 1, 2 + 2 + 1}},            // halves of 65536 elements: chunks of 87380 bytes, in messages of 64 KiB
		{2, 524288, "all_max", false, []int{1, 1}},                            // of 256 KiB
		{2, 524300, "all_gather", false, []int{2, 2}},                         // of 256 KiB for 262150 bytes
		{3, 600000, "reduce_scatter", false, []int{2, 2}},                     // of 256 KiB for 300000 bytes
		{3, 524292, "all_min", false, []int{2 + 2 + 1, 2 + 2 + 1, 2 + 2 + 1}}, // 43691 elements each: chunks of 58252 bytes, in messages of 32 KiB
		{2, 0, "barrier", false, []int{1, 0, 0, 0}},
	} {
		t.Run(fmt.Sprint(c.n, c.op, c.bytes, c.framesOnly, len(c.want)), func(t *testing.T) {
			ctx := rdmatest.Within(t, 3*time.Minute)
			comms := joined(t, c.n, func(o *Options) {
				o.FramesOnly, o.Devices = c.framesOnly, rdmatest.Wires(c.n, len(c.want))
			})
			require.NoError(t, errors.Join(jaccltest.Each(comms, func(comm jaccl.Communicator) error {
				g, call := comm.World(), collective.Call{Op: c.op, DType: graph.F32}
				one, all := make([]byte, c.bytes), make([]byte, c.n*c.bytes)
				switch c.op {
				case "all_sum":
					return g.AllSum(ctx, call, one, one)
				case "all_max":
					return g.AllMax(ctx, call, one, one)
				case "all_min":
					return g.AllMin(ctx, call, one, one)
				case "all_gather":
					return g.AllGather(ctx, call, all, one)
				case "reduce_scatter":
					return g.ReduceScatter(ctx, call, one, all)
				}
				return g.Barrier(ctx, call)
			})...))
			for w, eps := range comms[0].(*comm).eps {
				for _, e := range eps {
					if e != nil && (e.Sending.Turn != c.want[w] || e.Receiving.Turn != c.want[w]) {
						t.Errorf("wire %d: %d messages to rank %d and %d from it, want %d", w, e.Sending.Turn, e.Peer, e.Receiving.Turn, c.want[w])
					}
				}
			}
		})
	}
}
