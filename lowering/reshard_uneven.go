package lowering

import (
	"context"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// Exchanges of shards of different sizes. Transports gather and scatter parts of one
// size, so each part is padded with zeros to the size of the largest part. In an
// all_to_all each part has its own size.

// gatherUneven emits an all_gather over axes, after which out holds all parts of dimension
// d of in.
func (e *Emitter) gatherUneven(t graph.Type, out, in Buf, d int, axes []string) {
	room := e.Temp(in.Type)
	e.move(ops.PartPadded, room, in, padRoom)
	got := e.Temp(e.stacked(axes, in.Type))
	e.AllGather(axes, got, room)
	join := partsOf(t, out.Spec, d, axes)
	e.move(ops.PartsJoined, out, got, func(a *exec.Args) error {
		mem := a.In[0].Bytes()
		each := len(mem) / a.Mesh.Parts(axes)
		for i := range a.Mesh.Parts(axes) {
			join.copy(a, a.Out[0], i, mem[i*each:], true)
		}
		return nil
	})
}

// scatterUneven emits a reduce_scatter over axes, after which out holds the rank's part of
// dimension d of the sum of in.
func (e *Emitter) scatterUneven(t graph.Type, out, in Buf, d int, axes []string) {
	room := e.Temp(e.stacked(axes, out.Type))
	cut := partsOf(t, in.Spec, d, axes)
	e.move(ops.PartsPadded, room, in, func(a *exec.Args) error {
		mem := a.Out[0].Bytes()
		clear(mem)
		each := len(mem) / a.Mesh.Parts(axes)
		for i := range a.Mesh.Parts(axes) {
			cut.copy(a, a.In[0], i, mem[i*each:], false)
		}
		return nil
	})
	got := e.Temp(out.Type)
	e.reduceParts(axes, got, room)
	e.move(ops.PartUnpadded, out, got, unpadRoom)
}

// swapUneven emits an all_to_all over axes, which split dimension lose of in and dimension
// gain of out.
func (e *Emitter) swapUneven(t graph.Type, out, in Buf, lose, gain int, axes []string) {
	send, got := e.Placed(t, in.Spec), e.Placed(t, out.Spec)
	cut, join := partsOf(t, in.Spec, gain, axes), partsOf(t, out.Spec, lose, axes)
	e.move(ops.PartsApart, send, in, func(a *exec.Args) error {
		mem := a.Out[0].Bytes()
		for i := range a.Mesh.Parts(axes) {
			mem = mem[cut.copy(a, a.In[0], i, mem, false):]
		}
		return nil
	})
	e.EmitCollective(CollectiveSpec{Op: ops.AllToAll, Axes: axes, DType: t.DType, Bytes: in.Type.Bytes(), Out: []Buf{got}, In: []Buf{send},
		Exchange: func(ctx context.Context, g collective.Group, c collective.Call, a *exec.Args) error {
			return g.AllToAll(ctx, c, join.of(a, a.Out[0]), cut.of(a, a.In[0]))
		}})
	e.move(ops.PartsTogether, out, got, func(a *exec.Args) error {
		mem := a.In[0].Bytes()
		for i := range a.Mesh.Parts(axes) {
			mem = mem[join.copy(a, a.Out[0], i, mem, true):]
		}
		return nil
	})
}

// stacked returns the type of as many arrays of type t as there are parts along axes.
func (e *Emitter) stacked(axes []string, t graph.Type) graph.Type {
	return graph.Type{DType: t.DType, Shape: append([]int{e.Mesh.Parts(axes)}, t.Shape...)}
}

// padRoom copies a part to the front of memory for the largest one.
func padRoom(a *exec.Args) error {
	room := a.Out[0].Bytes()
	clear(room[copy(room, a.In[0].Bytes()):])
	return nil
}

// unpadRoom copies a part from the front of memory for the largest one.
func unpadRoom(a *exec.Args) error {
	copy(a.Out[0].Bytes(), a.In[0].Bytes())
	return nil
}

// parts are the parts of a rank's shard cut along dimension dim by axes.
type parts struct {
	axes []string
	dim  int
	unit int      // indivisible number of elements
	n    int      // units of the whole dimension
	base []string // axes cutting the whole dimension to the shard
	all  []string // base, then axes
}

// partsOf returns the parts of a shard of type t with placement s.
func partsOf(t graph.Type, s sharding.Spec, d int, axes []string) parts {
	unit := sharding.Unit(t, d)
	return parts{axes, d, unit, t.Shape[d] / unit, s.At(d), append(slices.Clone(s.At(d)), axes...)}
}

// cut returns the first unit of part i within the shard, and the number of its units. The cut is that of the whole
// dimension: a shard by itself might be cut differently, by ranges or between blocks.
func (p parts) cut(a *exec.Args, i int) (start, size int) {
	first, _ := a.Part(p.base, p.n)
	start, size = a.Mesh.Cut(p.all, p.n, a.Index(p.base)*a.Mesh.Parts(p.axes)+i)
	return start - first, size
}

// copy copies part i of x to the front of mem, or from there if back is set, and returns
// the size of the part in bytes.
func (p parts) copy(a *exec.Args, x array.Array, i int, mem []byte, back bool) int {
	n := x.Type.Shape[p.dim] / p.unit
	start, size := p.cut(a, i)
	if x.Type.Len() == 0 {
		return 0
	}
	all, o := x.Bytes(), outer(x.Type, p.dim)
	row := len(all) / o / n // bytes of one unit
	for k := range o {
		at, from := mem[k*size*row:(k+1)*size*row], all[(k*n+start)*row:]
		if back {
			copy(from, at)
		} else {
			copy(at, from)
		}
	}
	return o * size * row
}

// of returns the parts of mem, which holds the parts of x consecutively.
func (p parts) of(a *exec.Args, x array.Array) [][]byte {
	list := exec.NewDirty[byteParts](a)
	list.parts = list.parts[:0]
	mem, n := x.Bytes(), x.Type.Shape[p.dim]/p.unit
	for i := range a.Mesh.Parts(p.axes) {
		start, size := p.cut(a, i)
		row := len(mem) / max(n, 1)
		list.parts = append(list.parts, mem[start*row:(start+size)*row])
	}
	return list.parts
}
