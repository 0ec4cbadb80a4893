package lowering

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// Rule is implemented by primitives that can be lowered. Lower emits the instructions
// computing the buffers out from the buffers in. All have the placements decided by the
// primitive's placement rule.
type Rule interface {
	graph.Primitive
	Lower(e *Emitter, out, in []Buf) error
}

// RowCounter is implemented by the primitive sorting ragged rows by expert (see
// sharding.Ragged.Layer).
type RowCounter interface {
	// RowCounts returns the buffer i32[local experts] with the number of rows in use of
	// each expert of this rank. It emits the instructions computing the buffer. rows is
	// the placement of the ragged value.
	RowCounts(e *Emitter, rows sharding.Spec) (Buf, error)
	// ZoneAlign returns the alignment in rows: the rows of every expert begin at a
	// multiple of it.
	ZoneAlign() int
}

// Buf is one rank's part of a value while the plan is being built.
type Buf struct {
	ID   int
	Type graph.Type // local: the largest part's, if ranks' parts differ in size
	Spec sharding.Spec
}

// Emitter collects the instructions of a plan.
type Emitter struct {
	Mesh sharding.Mesh
	// Eqn is the equation being lowered.
	Eqn *graph.Eqn

	name  string          // of the value being made
	ctx   context.Context // of Lower
	asg   *sharding.Assignment
	plan  *Plan
	bufs  map[key]Buf
	memos map[any]Buf
	made  map[int]*graph.Eqn // by buffer, the equation with the rule that must write it
	seq   int
	sums  graph.DType // see Options.Sums
	pairs bool        // see Options.Pairs
}

type key struct {
	v      *graph.Value
	spec   string
	rag    *graph.Value
	tokens string
}

func keyOf(v *graph.Value, s sharding.Spec) key {
	k := key{v: v, spec: s.Format(v.Type)}
	if s.Ragged != nil {
		k.rag, k.tokens = s.Ragged.Routing, strings.Join(s.Ragged.Tokens, ".")
	}
	return k
}

// Temp returns a new buffer of the local type t, for use inside one rule.
//
// The buffer has this type on every rank. A buffer as large as a rank's part of a value
// is Placed instead, because the sizes of parts may differ.
func (e *Emitter) Temp(t graph.Type) Buf { return e.buf(t, t, sharding.Spec{}) }

// Packed returns a new buffer for rows of bytes, for use inside one rule. A row is the
// concatenation of one entry of each type.
func (e *Emitter) Packed(rows int, entry ...graph.Type) Buf {
	return e.packed(e.Temp(graph.T(graph.U8, rows, bytesOf(entry))), entry)
}

// PackedPairs is Packed with k rows for each of a rank's tokens, split along axes:
// u8[tokens,k,bytes].
func (e *Emitter) PackedPairs(axes []string, tokens, k int, entry ...graph.Type) Buf {
	return e.packed(e.Placed(graph.T(graph.U8, tokens, k, bytesOf(entry)), sharding.Spec{Dims: [][]string{axes, nil, nil}}), entry)
}

func (e *Emitter) packed(b Buf, entry []graph.Type) Buf {
	e.plan.Bufs[b.ID].Packed = entry
	return b
}

// bytesOf returns the bytes of one value of each type.
func bytesOf(entry []graph.Type) int {
	size := int64(0)
	for _, t := range entry {
		size += t.Bytes()
	}
	return int(size)
}

// Placed returns a new buffer for a rank's part of a value of the global type t
// with placement s.
func (e *Emitter) Placed(t graph.Type, s sharding.Spec) Buf {
	return e.buf(t, s.Local(e.Mesh, t), s)
}

func (e *Emitter) buf(global, local graph.Type, s sharding.Spec) Buf {
	pos := graph.Pos{}
	if e.Eqn != nil {
		pos = e.Eqn.Pos
	}
	e.plan.Bufs = append(e.plan.Bufs, Buffer{Type: local, Global: global, Spec: s, Uneven: s.Uneven(e.Mesh, global), Pos: pos, Name: e.name, Def: -1, Last: -1})
	return Buf{len(e.plan.Bufs) - 1, local, s}
}

// Even reports whether all ranks' parts of dimension d of b have the same size.
func (e *Emitter) Even(b Buf, d int) bool { return b.Spec.Even(e.Mesh, e.plan.Bufs[b.ID].Global, d) }

// Alias makes out share the memory of in, which has as many bytes. Nothing is
// copied.
func (e *Emitter) Alias(out, in Buf) {
	root := e.plan.Root(in.ID)
	e.plan.Bufs[out.ID].Storage, e.plan.Bufs[out.ID].Of = Alias, root
	e.plan.Bufs[out.ID].After = e.plan.Bufs[in.ID].After
}

// wait makes readers of b follow the instructions making the values. Values not made by
// an instruction are not waited for.
func (e *Emitter) wait(b Buf, values []*graph.Value) {
	after := slices.Clone(e.plan.Bufs[b.ID].After)
	for _, v := range values {
		if x, ok := e.bufs[keyOf(v, e.asg.Spec[v])]; ok {
			after = append(after, x.ID)
		}
	}
	e.plan.Bufs[b.ID].After = after
}

// Memo returns the buffer made earlier for the same key, calling make the first time.
// Rules use it for buffers shared by several equations, such as the counts of a routing.
// The key is a comparable value of a type defined by the caller.
func (e *Emitter) Memo(key any, make func() (Buf, error)) (Buf, error) {
	if b, ok := e.memos[key]; ok {
		return b, nil
	}
	b, err := make()
	if err == nil {
		e.memos[key] = b
	}
	return b, err
}

// KernelSpec is a call of a host kernel emitted by a rule. A device may have a kernel for the same
// operation.
type KernelSpec struct {
	Op      Op
	Out, In []Buf
	// Does is the computation of the kernel, if that is only one step of the equation,
	// such as a reduction of some axes. Devices choose their kernel by it. nil stands for
	// the equation's primitive.
	Does graph.Primitive
	// InPlace allows results to alias arguments of the same type: the kernel reads
	// element i of every argument before writing element i of any result.
	InPlace bool
	// Over lists further pairs of a result and an argument whose memory it may have, if their types
	// are the same.
	Over [][2]int
	// Within allows result 0 to lie at the beginning of the memory of argument 0,
	// whatever their types, if the argument is at least as large. The kernel detects
	// whether it does.
	Within bool
	// Elementwise declares that element i of every result depends only on element i of
	// the arguments and on scalar arguments, and not on i or the shape. Arguments with
	// dimensions have as many elements as the results. Such kernels are InPlace. They are
	// fused (see Options.Fuse), and a fused kernel gets one-dimensional pieces of the
	// arrays.
	Elementwise bool
	// Repeat, if not 0, declares that the kernel has one argument, of n elements, and one
	// result, with element i/Repeat modulo n of the argument as element i. If only
	// elementwise kernels read the result, the kernel is fused with each of them and the
	// result takes no memory.
	Repeat int
	Kernel exec.Kernel
	// Packs are packed copies of arguments making the kernel faster.
	Packs []Pack
	// Slabs are the arguments that Kernel, and the kernels of Packs, read by
	// array.Array.Slab only.
	Slabs []int
	// Through are the arguments in expert order, with rows that Kernel can read through an index as
	// well, by exec.Args.IndexOf. Joins then need not copy them to expert order.
	Through []int
	// Dry is run by a dry run to count the memory that Kernel uses in addition to its
	// arguments and results (see exec.Dry): Kernel, or Kernel with contents for its
	// arguments. nil declares that this memory is negligible.
	Dry exec.Kernel
}

// Emit emits a call of a host kernel. If an argument or a result is ragged, the kernel
// sees only the zones of the experts, and the rows that pad a zone of a ragged result to
// its alignment are zeroed. Rows after the last zone are never read.
func (e *Emitter) Emit(s KernelSpec) error {
	if s.Op == nil {
		return errors.New("a kernel has no operation, want KernelSpec.Op")
	}
	if s.Kernel == nil {
		return fmt.Errorf("kernel %s has no function, want KernelSpec.Kernel", s.Op)
	}
	i := Instr{Op: s.Op, Does: s.Does, InPlace: s.InPlace || s.Elementwise, Over: s.Over, Within: s.Within, Zones: -1, Host: Host{
		Kernel: s.Kernel, Flat: s.Elementwise || s.Repeat > 0, Repeat: s.Repeat, Packs: s.Packs, Slabs: s.Slabs, Through: s.Through, Dry: s.Dry}}
	for _, b := range append(slices.Clone(s.In), s.Out...) {
		if b.Spec.Ragged == nil || i.Zones >= 0 {
			continue
		}
		counts, align, err := e.RowCounts(b.Spec)
		if err != nil {
			return err
		}
		i.Zones, i.Align = counts.ID, align
	}
	e.emit(i, s.Out, s.In)
	return nil
}

// CollectiveSpec is an exchange emitted by a rule, among the ranks differing along Axes.
type CollectiveSpec struct {
	Op       Op
	Axes     []string
	DType    graph.DType
	Bytes    int64 // the largest payload of a rank
	Out, In  []Buf
	Exchange exec.Exchange
	// InPlace allows results to alias arguments of the same type.
	InPlace bool
	// Travels marks an exchange sending rows to their experts or back. Instructions on
	// which it does not depend overlap with it.
	Travels bool
	// Pairs adds sums in pairs; see collective.Call.
	Pairs bool
}

// EmitCollective emits an exchange. It must not be called without axes: the caller then
// computes the results from the arguments without an exchange.
func (e *Emitter) EmitCollective(s CollectiveSpec) {
	e.emit(Instr{Op: s.Op, InPlace: s.InPlace, Zones: -1, Collective: Collective{
		Exchange: s.Exchange, Axes: s.Axes, Seq: e.seq, Bytes: s.Bytes, DType: s.DType, Travels: s.Travels, Pairs: s.Pairs}}, s.Out, s.In)
	e.seq++
}

// RowCounts returns the buffer with the number of rows in use of each local expert, and
// the alignment of the experts' zones in rows.
func (e *Emitter) RowCounts(rows sharding.Spec) (Buf, int, error) {
	rc, ok := rows.Ragged.Layer.(RowCounter)
	if !ok {
		return Buf{}, 0, fmt.Errorf("%s makes ragged rows but does not count them", rows.Ragged.Layer.Name())
	}
	b, err := rc.RowCounts(e, rows)
	return b, rc.ZoneAlign(), err
}

func (e *Emitter) emit(i Instr, out, in []Buf) {
	if e.Eqn != nil {
		i.Prim, i.Pos = e.Eqn.Prim, e.Eqn.Pos
	}
	for _, b := range out {
		i.Out = append(i.Out, b.ID)
	}
	for _, b := range in {
		i.In = append(i.In, b.ID)
	}
	e.plan.Instrs = append(e.plan.Instrs, i)
}

// Value returns the buffer of v in the placement of v's definition.
func (e *Emitter) Value(v *graph.Value) (Buf, error) { return e.Have(v, e.asg.Spec[v]) }

// Have returns the buffer of v with placement s. If there is none yet, Have emits the
// instructions making it: a flexible definition is lowered again for s, any other value
// is resharded.
func (e *Emitter) Have(v *graph.Value, s sharding.Spec) (Buf, error) {
	if b, ok := e.bufs[keyOf(v, s)]; ok {
		return b, nil
	}
	defer e.naming(v)()
	var b Buf
	var err error
	if e.asg.Flexible(v) && len(s.Pending) > 0 && !sharding.IsZero(v) {
		if b, err = e.Have(v, s.Resolved()); err == nil {
			b, err = e.Reshard(v.Type, b, s)
		}
	} else if e.asg.Flexible(v) {
		b, err = e.flexible(v, s)
	} else {
		from, ok := e.bufs[keyOf(v, e.asg.Spec[v])]
		if !ok {
			return Buf{}, fmt.Errorf("value %s has no buffer", v.Type)
		}
		b, err = e.Reshard(v.Type, from, s)
	}
	if err == nil {
		e.bufs[keyOf(v, s)] = b
	}
	return b, err
}

// naming gives buffers the name of v, if v has one, until end is called.
func (e *Emitter) naming(v *graph.Value) (end func()) {
	outer := e.name
	if v.Name != "" {
		e.name = v.Name
	}
	return func() { e.name = outer }
}

// flexible lowers v's definition for the placement s, in addition to its earlier
// placements.
func (e *Emitter) flexible(v *graph.Value, s sharding.Spec) (Buf, error) {
	eqn := e.Eqn
	if _, ok := v.Def.Prim.(graph.BarrierOp); ok {
		return e.Have(v.Def.In[0], s) // a value that can be made in any placement is made for each use
	}
	name := e.name
	defer func() { e.Eqn, e.name = eqn, name }()
	e.Eqn, e.name = v.Def, ""
	dec, err := sharding.ShardAs(e.asg.Context(v.Def), s)
	if err != nil {
		return Buf{}, err
	}
	if made := dec.Out[0]; !made.Equal(s) {
		b, err := e.Have(v, made)
		if err != nil {
			return Buf{}, err
		}
		return e.Reshard(v.Type, b, s)
	}
	in := make([]Buf, len(v.Def.In))
	for i, u := range v.Def.In {
		if in[i], err = e.Have(u, dec.In[i]); err != nil {
			return Buf{}, err
		}
	}
	out := e.Placed(v.Type, s)
	e.plan.Bufs[out.ID].Name = name
	return out, e.rule(v.Def, []Buf{out}, in)
}

func (e *Emitter) rule(q *graph.Eqn, out, in []Buf) error {
	switch p := q.Prim.(type) {
	case graph.FullOp:
		return e.Emit(KernelSpec{Op: ops.Full, Out: out, Elementwise: true, Kernel: fill(p.Value, q.Out[0].Type.DType)})
	case graph.AddAnyOp:
		if len(in) == 1 {
			e.Alias(out[0], in[0])
			return nil
		}
		return e.Emit(KernelSpec{Op: ops.AddAny, Out: out, In: in, Elementwise: true, Kernel: addAny})
	case graph.ScanOp:
		return e.scan(p, out, in)
	case Rule:
		for _, b := range out {
			e.made[b.ID] = q
		}
		return graph.Guard("Lower", func() error { return p.Lower(e, out, in) })
	default:
		return fmt.Errorf("the primitive has no lowering rule")
	}
}
