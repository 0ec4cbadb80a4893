package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/array"
)

// TestLookup compares elements that indices name, and what is added to them.
func TestLookup(t *testing.T) {
	for _, d := range []string{"f32", "bf16", "f16"} {
		t.Run(d, func(t *testing.T) {
			p := &program{fill: below(5)}
			p.input("table", d+"[7,33]")
			p.input("x", d+"[4,5,3]")
			p.input("ids", "i32[3,31]")
			p.input("rows", d+"[3,31,33]")
			p.input("index", "i32[6]")
			p.input("updates", d+"[4,6,3]")
			p.input("each", "i32[4,2,3]")
			p.input("ones", d+"[4,2,3]")
			p.eq("embedding(table, ids)")
			p.eq("embedding_grad(ids, rows) num=7")
			p.eq("embedding_grad(ids, rows) num=300")
			p.eq("gather(x, index) axis=1")
			p.eq("gather(table, ids) axis=0")
			p.eq("take_along_axis(x, each) axis=1")
			p.eq("add_along_axis(ones, each) axis=1 size=9")
			p.eq("scatter_add(x, index, updates) axis=1")
			p.eq("one_hot(each) num_classes=4 dtype=%s", d)
			p.options.Instructions = []string{"embedding", "embedding_grad", "gather", "take_along_axis", "add_along_axis", "scatter_add", "one_hot"}
			p.check(t, false)
		})
	}
	p := &program{fill: below(5)}
	for _, d := range []string{"i32", "u32", "u8"} {
		p.input("x"+d, d+"[5,3]")
		p.input("u"+d, d+"[6,3]")
		if d == "i32" {
			p.input("index", "i32[6]")
		}
		p.eq("scatter_add(x%s, index, u%s) axis=0", d, d)
		p.eq("gather(x%s, index) axis=0", d)
	}
	p.eq("one_hot(index) num_classes=3 dtype=bool")
	p.check(t, false)
}

// TestScatterMany has more indices than a threadgroup takes at a time, which name few places and
// many, and lines of as many elements as there are places.
func TestScatterMany(t *testing.T) {
	for _, count := range []int{255, 256, 257, 900} {
		for _, places := range []int{1, 3, 400} {
			p := &program{fill: below(places)}
			p.input("ids", fmt.Sprintf("i32[%d]", count))
			p.input("rows", fmt.Sprintf("f32[%d,2]", count))
			p.input("x", fmt.Sprintf("f32[%d,2]", places))
			p.input("each", fmt.Sprintf("i32[3,%d,2]", count))
			p.input("ones", fmt.Sprintf("bf16[3,%d,2]", count))
			p.input("wide", fmt.Sprintf("f32[3,%d,2]", count))
			p.eq("embedding_grad(ids, rows) num=%d", places)
			p.eq("scatter_add(x, ids, rows) axis=0")
			p.eq("add_along_axis(ones, each) axis=1 size=%d", places)
			p.eq("add_along_axis(wide, each) axis=1 size=%d", places)
			p.options.Instructions = []string{"embedding_grad", "add_along_axis", "scatter_add"}
			p.check(t, false)
		}
	}
}

// TestLookupPlaced has ids and rows on several ranks.
func TestLookupPlaced(t *testing.T) {
	p := &program{fill: below(5), mesh: "dp=2,ep=2", place: map[string]string{"ids": "dp", "rows": "dp", "index": "ep", "updates": "ep"}}
	p.input("table", "f32[7,8]")
	p.input("ids", "i32[4,3]")
	p.input("rows", "f32[4,3,8]")
	p.input("x", "f32[5,3]")
	p.input("index", "i32[6]")
	p.input("updates", "f32[6,3]")
	p.eq("embedding(table, ids)")
	p.eq("embedding_grad(ids, rows) num=7")
	p.eq("scatter_add(x, index, updates) axis=0")
	p.options.Instructions = []string{"embedding", "embedding_grad", "scatter_add"}
	p.check(t, false)
}

// A table whose rows are split, evenly and not, also of fewer rows than ranks; ids that there are not
// are errors on every rank.
func TestLookupParts(t *testing.T) {
	for i, table := range []string{"f32[8,5]", "bf16[7,8]", "f16[3,6]", "f64[1,2]"} {
		p := &program{fill: below([]int{8, 7, 3, 1}[i]), mesh: []string{"ep=2", "dp=2,ep=2", "ep=4"}[i%3], place: map[string]string{"table": "ep"}}
		if i == 1 {
			p.place["ids"] = "dp"
		}
		p.input("table", table)
		p.input("ids", "i32[4,3]")
		p.eq("embedding(table, ids)")
		p.options.Instructions = []string{"embedding_part"}
		p.check(t, false)
	}
	p := &program{mesh: "ep=2", place: map[string]string{"table": "ep"}, fill: func(_ string, x array.Array, r *rand.Rand) {
		below(5)("", x, r)
		if x.Type.DType.String() == "i32" {
			array.Data[int32](x)[7] = 7
		}
	}}
	p.input("table", "f32[7,3]")
	p.input("ids", "i32[4,3]")
	p.eq("embedding(table, ids)")
	p.options.Instructions, p.options.Fails = []string{"embedding_part"}, "id 7 at [2 1], want 0 to 6"
	p.check(t, false)
}

// TestLookupFaults has indices out of range, which the host reports, too.
func TestLookupFaults(t *testing.T) {
	for _, c := range []struct{ eq, fails string }{
		{"embedding(table, ids)", "id 9 at [1 300], want 0 to 6"},
		{"embedding_grad(ids, rows) num=7", "id 9 at [1 300], want 0 to 6"},
		{"gather(table, flat) axis=0", "index 9, element 701 of this rank's indices, is out of range, want 0 to 6 for an axis of size 7"},
		{"scatter_add(table, flat, long) axis=0", "index 9, element 701 of this rank's indices, is out of range, want 0 to 6 for an axis of size 7"},
		{"take_along_axis(table, each) axis=0", "element 701 of the indices i32[302,3] is 9, want 0 to 6 for axis 0"},
		{"add_along_axis(ones, each) axis=0 size=7", "element 701 of the indices i32[302,3] is 9, want 0 to 6 for axis 0"},
	} {
		p := &program{fill: func(_ string, x array.Array, r *rand.Rand) {
			below(5)("", x, r)
			if x.Type.DType.String() == "i32" {
				array.Data[int32](x)[701] = 9
				array.Data[int32](x)[800] = -1
			}
		}}
		p.input("table", "f32[7,3]")
		p.input("ids", "i32[2,401]")
		p.input("rows", "f32[2,401,3]")
		p.input("flat", "i32[801]")
		p.input("long", "f32[801,3]")
		p.input("each", "i32[302,3]")
		p.input("ones", "f32[302,3]")
		p.eq("%s", c.eq)
		p.options.Fails = c.fails
		p.check(t, false)
	}
}
