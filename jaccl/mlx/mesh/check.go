package mesh

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl/mlx/headless"
)

// CheckCount is the number of elements of the sum that Connect uses to check the
// connections. The elements are 0, 1, 2 and so on, as f32. They are the same on all
// ranks, and their sums are exact.
//
// Older versions of MLX send all of an array to every rank. Without the check, a sum over
// ranks of both kinds would be wrong on all ranks, without an error. On three ranks,
// CheckCount is the least round number giving messages of both kinds the same length, 512
// KiB, so that the ranks exchange them and see that the sum is wrong.
const CheckCount = 600_000

// check adds CheckCount numbers, 2.4 MB, on all ranks. That took 12 ms on three ranks in one
// process on two busy processors (BenchmarkCheck).
func (c *comm) check(ctx context.Context) error {
	b := make([]byte, 0, 4*CheckCount)
	for i := range CheckCount {
		b = binary.NativeEndian.AppendUint32(b, math.Float32bits(float32(i)))
	}
	err := c.World().AllSum(ctx, collective.Call{Op: "all_sum", DType: graph.F32, Bytes: int64(len(b))}, b, b)
	for i := 0; i < CheckCount && err == nil; i++ {
		got, want := math.Float32frombits(binary.NativeEndian.Uint32(b[4*i:])), float32(c.size*i)
		if got != want {
			err = c.party.fail(&headless.FailureError{Blame: []int{c.rank}, Text: fmt.Sprintf("rank %d: element %d of the sum is %v, want %v", c.rank, i, got, want)})
		}
	}
	if err != nil {
		return fmt.Errorf("the sum of %d known numbers, by which the ranks check their connections, failed: all ranks have to speak the protocol of MLX 0.32.4 (0.32.1 to 0.32.3 have it for one wire only, older versions have another), "+
			"and a rank of MLX has to begin with mx.eval(mx.distributed.all_sum(mx.arange(%d, dtype=mx.float32))): %w", CheckCount, CheckCount, err)
	}
	return nil
}
