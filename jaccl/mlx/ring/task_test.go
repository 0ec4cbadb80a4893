package ring_test

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
)

// task is an operation of testdata/rank.py.
type task struct {
	Op     string `json:"op"`
	DType  string `json:"dtype"`
	Count  int    `json:"count"`
	Seed   uint64 `json:"seed"`
	Period uint64 `json:"period"`
}

func (o task) dtype() graph.DType {
	d, err := graph.ParseDType(o.DType)
	if err != nil {
		panic(err)
	}
	return d
}

// input returns the bytes that rank.py has for a rank.
func (o task) input(rank int) []byte {
	d := o.dtype()
	out := make([]byte, 0, o.Count*d.Size()+8)
	f, float := map[graph.DType][3]uint64{graph.F16: {10, 16, 15}, graph.BF16: {7, 16, 127}, graph.F32: {23, 32, 127}, graph.F64: {52, 64, 1023}}[d]
	for i := range uint64(o.Count) {
		if o.Period > 0 {
			i %= o.Period
		}
		h := (i+1)*0x9E3779B97F4A7C15 + (o.Seed*1000003+uint64(rank))*0xBF58476D1CE4E5B9
		h = (h ^ h>>31) * 0x94D049BB133111EB
		h ^= h >> 29
		if float {
			low, width, bias := f[0], f[1], f[2]
			h = h&(1<<low-1|1<<(width-1)) | (h>>3%16+bias-8)<<low
		}
		if d == graph.Bool {
			h &= 1
		}
		out = binary.LittleEndian.AppendUint64(out, h)[:len(out)+d.Size()]
	}
	return out
}

// run runs the task on one rank and returns the result.
func (o task) run(ctx context.Context, g jaccl.Group, seq int) ([]byte, error) {
	in, n := o.input(g.Rank()), g.Size()
	c := collective.Call{Op: o.Op, Seq: seq, DType: o.dtype(), Bytes: int64(len(in)), Pos: graph.Pos{File: "ring.go", Line: seq}}
	out := make([]byte, len(in))
	switch o.Op {
	case "all_sum":
		return out, g.AllSum(ctx, c, out, in)
	case "all_max":
		return out, g.AllMax(ctx, c, out, in)
	case "all_min":
		return out, g.AllMin(ctx, c, out, in)
	case "all_gather":
		out = make([]byte, n*len(in))
		return out, g.AllGather(ctx, c, out, in)
	case "send_recv":
		return out, g.SendRecv(ctx, c, (g.Rank()+1)%n, in, (g.Rank()+n-1)%n, out)
	case "barrier":
		return nil, g.Barrier(ctx, c)
	}
	return nil, fmt.Errorf("no operation %q", o.Op)
}
