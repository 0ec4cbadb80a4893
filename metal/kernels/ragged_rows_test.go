package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// TestRaggedRows does what is done to rows to those of experts: of which some have none,
// or one has all, and which begin at multiples of an alignment.
func TestRaggedRows(t *testing.T) {
	for _, mesh := range []string{"", "ep=2"} {
		for _, align := range []int{1, 8} {
			for _, to := range []func(r *rand.Rand) int32{
				func(r *rand.Rand) int32 { return int32(3 * r.IntN(2)) }, // two experts have none
				func(*rand.Rand) int32 { return 2 },
			} {
				p := &program{mesh: mesh, fill: func(name string, x array.Array, r *rand.Rand) {
					if x.Type.DType != graph.I32 {
						return
					}
					for i := range array.Data[int32](x) {
						array.Data[int32](x)[i] = to(r)
					}
				}}
				if mesh != "" {
					p.place = map[string]string{"idx": "ep", "x": "ep"}
				}
				params := fmt.Sprintf("experts=4 axis=\"ep\" align=%d", align)
				room := 12 + 4*(align-1)
				p.input("idx", "i32[12,1]")
				p.input("x", "f32[12,33]")
				p.input("gain", "f32[33]")
				p.body = append(p.body, "route, drop, n, pad, demand = ep_prepare(idx) "+params,
					fmt.Sprintf("rows f32[%d,33] = ep_dispatch(x, route) %s", room, params))
				var back []string
				row := func(eq string) { back = append(back, p.eq("%s", eq)) }
				row("softmax(rows) axis=1")
				row("softmax_grad(rows, rows) axis=1")
				row("log_softmax(rows) axis=1")
				row("log_softmax_grad(rows, rows) axis=1")
				row("rms_norm(rows, gain) eps=0.00001")
				row("rms_norm_grad(rows, gain, rows) eps=0.00001")
				row("layer_norm(rows, gain, gain) eps=0.00001")
				row("layer_norm_grad(rows, gain, rows) eps=0.00001")
				p.out = nil // rows of experts are no results: they go back to their tokens
				for i, r := range back {
					p.body = append(p.body, fmt.Sprintf("y%d f32[12,33] = ep_combine(%s, route) %s", i, r, params))
					p.out = append(p.out, fmt.Sprintf("y%d", i))
				}
				p.eq("rms_norm_gain_grad(rows, rows) eps=0.00001")
				p.body = append(p.body, "gg, gb = layer_norm_gain_grad(rows, rows) eps=0.00001")
				p.out = append(p.out, "gg", "gb")
				p.options.Instructions = []string{"softmax", "softmax_grad", "log_softmax", "log_softmax_grad", "rms_norm",
					"rms_norm_grad", "layer_norm", "layer_norm_grad", "rms_norm_gain_grad", "layer_norm_gain_grad"}
				p.check(t, false)
			}
		}
	}
}
