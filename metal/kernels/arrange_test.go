package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gomoe/gomoe/array"
)

// TestArrange compares moves of elements of all sizes.
func TestArrange(t *testing.T) {
	for _, d := range []string{"f32", "bf16", "u8", "f64"} {
		t.Run(d, func(t *testing.T) {
			p := &program{}
			p.input("x", d+"[5,3,7]")
			p.input("y", d+"[5,4,7]")
			p.input("v", d+"[7]")
			p.input("one", d+"[1,3,1]")
			p.input("s", d+"[]")
			p.input("big", d+"[33,40]")
			p.eq("broadcast_in_dim(v) shape=[5,7,3] dims=[1]")
			p.eq("broadcast_in_dim(one) shape=[5,3,7] dims=[0,1,2]")
			p.eq("broadcast_in_dim(s) shape=[3,4] dims=[]")
			p.eq("broadcast_in_dim(s) shape=[0,4] dims=[]")
			p.eq("transpose(x) permutation=[2,0,1]")
			p.eq("transpose(big) permutation=[1,0]")
			p.eq("slice(x) start_indices=[1,0,2] limit_indices=[5,2,7] strides=[2,1,2]")
			p.eq("slice(x) start_indices=[1,0,2] limit_indices=[3,2,7]")
			p.eq("rev(x) dimensions=[0,2]")
			p.eq("concatenate(x, y, x) dimension=1")
			p.eq("pad(x, s) low=[1,-1,0] high=[0,2,3]")
			p.eq("pad(x, s) low=[-2,0,3] high=[1,0,-1] interior=[0,2,1]")
			p.options.Instructions = []string{"broadcast_in_dim", "transpose", "slice", "rev", "concatenate", "pad"}
			p.check(t, false)
		})
	}
}

// TestDynamic compares boxes at start indices that are in and out of range.
func TestDynamic(t *testing.T) {
	for _, at := range []int32{-3, 0, 1, 2, 9} {
		p := &program{fill: func(_ string, x array.Array, _ *rand.Rand) {
			if x.Type.Rank() == 0 {
				array.Data[int32](x)[0] = at
			}
		}}
		p.input("x", "f32[5,3,33]")
		p.input("u", "f32[2,3,32]")
		p.input("w", "f32[5,3,33]")
		p.input("h", "bf16[9]")
		p.input("k", "bf16[4]")
		for _, i := range []string{"i", "j", "l"} {
			p.input(i, "i32[]")
		}
		p.eq("dynamic_slice(x, i, j, l) slice_sizes=[2,3,20]")
		p.eq("dynamic_slice(h, i) slice_sizes=[4]")
		p.eq("dynamic_update_slice(x, u, i, j, l)")
		p.eq("dynamic_update_slice(x, w, i, j, l)")
		p.eq("dynamic_update_slice(h, k, i)")
		p.eq("dynamic_slice(i) slice_sizes=[]")
		p.options.Instructions = []string{"dynamic_slice", "dynamic_update_slice"}
		p.check(t, false)
	}
}

// TestPlaced compares what ranks do with their parts, of equal and of different sizes, and
// where some ranks have none.
func TestPlaced(t *testing.T) {
	for _, n := range [][3]int{{8, 12, 16}, {7, 5, 9}, {1, 3, 1}} {
		t.Run(fmt.Sprint(n), func(t *testing.T) { testPlaced(t, n[0], n[1], n[2]) })
	}
}

func testPlaced(t *testing.T, rows, cols, wide int) {
	p := &program{mesh: "dp=2,ep=2", place: map[string]string{"x": "dp,ep", "y": "ep", "t": "_,dp", "u": "_,ep"}}
	p.input("x", fmt.Sprintf("f32[%d,%d]", rows, cols))
	p.input("y", fmt.Sprintf("f32[%d]", rows))
	p.input("t", fmt.Sprintf("f32[%d,%d]", rows, cols))
	p.input("u", fmt.Sprintf("f32[%d,%d]", rows, wide))
	c := p.eq("sharding_constraint(x) spec=\"ep,dp\"")
	p.eq("add(%s, %s)", c, c)
	p.eq("transpose(x) permutation=[1,0]")
	p.eq("iota() dtype=f32 shape=[%d,%d] dimension=1", rows, cols)
	p.eq("reduce_sum(x) axes=[0,1]")
	p.eq("reduce_sum(x) axes=[0]")
	p.eq("reduce_sum(x) axes=[1]")
	p.eq("reduce_max(x) axes=[0,1]")
	p.eq("reduce_max(x) axes=[1]")
	p.eq("reduce_min(t) axes=[0,1]")
	p.eq("reduce_sum(u) axes=[0,1]")
	p.eq("reduce_sum(x) axes=[0,1] unordered=true")
	p.eq("reduce_sum(y) axes=[0] unordered=true")
	p.options.Instructions = []string{"shard_part", "reduce_sum", "reduce_max", "reduce_min", "transpose"}
	p.check(t, false)
	for _, in := range p.plan(t, false).Instrs { // also those of some axes only
		if !in.On && !in.Communicates() && !strings.HasPrefix(in.Name(), "part") {
			t.Errorf("the host runs %s because %q", in.Name(), in.Why)
		}
	}
}
