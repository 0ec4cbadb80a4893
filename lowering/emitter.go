package lowering

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// Rule is implemented by primitives that can be lowered. Lower emits the
// instructions that compute the results' buffers from the arguments', placed
// as the primitive's placement rule decided.
type Rule interface {
	graph.Primitive
	Lower(e *Emitter, out, in []Buf) error
}

// RowCounter is implemented by the primitive that put ragged rows in order (see
// sharding.Ragged.Layer).
type RowCounter interface {
	// RowCounts returns the buffer i32[local experts] with the rows in use per
	// expert of this rank, emitting what computes it. rows is the placement of
	// the ragged value.
	RowCounts(e *Emitter, rows sharding.Spec) (Buf, error)
	// ZoneAlign returns the multiple of rows at which every expert starts.
	ZoneAlign() int
}

// Buf is one rank's part of a value while the plan is being made.
type Buf struct {
	ID   int
	Type graph.Type // local
	Spec sharding.Spec
}

// Emitter collects the instructions of a plan.
type Emitter struct {
	Mesh sharding.Mesh
	// Eqn is the equation that is being lowered.
	Eqn *graph.Eqn

	asg   *sharding.Assignment
	plan  *Plan
	bufs  map[key]Buf
	memos map[any]Buf
	seq   int
}

type key struct {
	v    *graph.Value
	spec string
	rag  *graph.Value
}

func keyOf(v *graph.Value, s sharding.Spec) key {
	k := key{v: v, spec: s.Format(v.Type)}
	if s.Ragged != nil {
		k.rag = s.Ragged.Routing
	}
	return k
}

// Temp returns a new buffer of the local type, for use inside one rule.
func (e *Emitter) Temp(t graph.Type) Buf { return e.buf(t, t, sharding.Spec{}) }

// Placed returns a new buffer for a value of the global type with that
// placement.
func (e *Emitter) Placed(t graph.Type, s sharding.Spec) Buf {
	return e.buf(t, s.Local(e.Mesh, t), s)
}

func (e *Emitter) buf(global, local graph.Type, s sharding.Spec) Buf {
	pos := graph.Pos{}
	if e.Eqn != nil {
		pos = e.Eqn.Pos
	}
	e.plan.Bufs = append(e.plan.Bufs, Buffer{Type: local, Global: global, Spec: s, Pos: pos, Def: -1, Last: -1})
	return Buf{len(e.plan.Bufs) - 1, local, s}
}

// Alias gives out the memory of in, which has as many bytes; nothing is
// copied.
func (e *Emitter) Alias(out, in Buf) {
	root := e.plan.Root(in.ID)
	e.plan.Bufs[out.ID].Storage, e.plan.Bufs[out.ID].Of = Alias, root
}

// Memo returns the buffer that make returned for this key before, or calls it.
// Rules use it for what several equations share, such as the counts of a
// routing; the key is a comparable value of the caller's own type.
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

// Kernel emits a call of a host kernel. A device overrides it by name. If an
// argument or a result is ragged, the kernel sees the experts' zones only, and
// the rows of each ragged result with which zones are filled up are zeroed.
// Nobody sees the rows past the last zone.
func (e *Emitter) Kernel(name string, out, in []Buf, k exec.Kernel) error {
	return e.kernel(Instr{Name: name, Kernel: k}, out, in)
}

// InPlace is Kernel for one whose results may each share the memory of an
// argument of the same type: it reads element i of every argument before it
// writes element i of any result.
func (e *Emitter) InPlace(name string, out, in []Buf, k exec.Kernel) error {
	return e.kernel(Instr{Name: name, Kernel: k, InPlace: true}, out, in)
}

// Elementwise is InPlace for a kernel that is flat: element i of every result
// depends on element i of the arguments and on arguments without dimensions,
// and on nothing else; not on i, nor on the shape. All but those have as many
// elements as the results. Such kernels are fused (see Options.Fuse), and then
// given pieces of the arrays with one dimension.
func (e *Emitter) Elementwise(name string, out, in []Buf, k exec.Kernel) error {
	return e.kernel(Instr{Name: name, Kernel: k, InPlace: true, Flat: true}, out, in)
}

// Repeat is Kernel for one that writes element i/inner modulo in's length of in
// to element i of out. Where elementwise kernels alone read out, it is fused
// with each of them and no memory holds it.
func (e *Emitter) Repeat(name string, out, in Buf, inner int, k exec.Kernel) error {
	return e.kernel(Instr{Name: name, Kernel: k, Flat: true, Repeat: inner}, []Buf{out}, []Buf{in})
}

func (e *Emitter) kernel(i Instr, out, in []Buf) error {
	i.Zones = -1
	for _, b := range append(slices.Clone(in), out...) {
		if b.Spec.Ragged == nil || i.Zones >= 0 {
			continue
		}
		counts, align, err := e.RowCounts(b.Spec)
		if err != nil {
			return err
		}
		i.Zones, i.Align = counts.ID, align
	}
	e.emit(i, out, in)
	return nil
}

// Does says what the kernel that was emitted last does, if that is one step of the
// equation: a reduction of some axes, say. Devices go by it.
func (e *Emitter) Does(p graph.Primitive) { e.plan.Instrs[len(e.plan.Instrs)-1].Does = p }

// Travels says that the collective that was emitted last brings rows to their experts
// or home. Instructions that it does not need are computed behind its start.
func (e *Emitter) Travels() { e.plan.Instrs[len(e.plan.Instrs)-1].Travels = true }

// Packs says which copies of its arguments the kernel that was emitted last would like
// to have.
func (e *Emitter) Packs(packs ...Pack) { e.plan.Instrs[len(e.plan.Instrs)-1].Packs = packs }

// RowCounts returns the buffer with the rows in use per local expert, and the
// alignment of the experts' zones.
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

// Collective emits an exchange among the ranks that differ along axes. bytes is
// the most payload that one rank contributes. Along no axes nothing is emitted
// and the caller must have made out from in itself.
func (e *Emitter) Collective(op string, axes []string, d graph.DType, bytes int64, out, in []Buf, x exec.Exchange) {
	e.emit(Instr{Name: op, Exchange: x, Axes: axes, Seq: e.seq, Bytes: bytes, DType: d, Zones: -1}, out, in)
	e.seq++
}

// Value returns the buffer of a value in the placement that follows from its
// definition.
func (e *Emitter) Value(v *graph.Value) (Buf, error) { return e.Have(v, e.asg.Spec[v]) }

// Have returns the buffer of v placed as s, making it where it is not there yet:
// a flexible definition is lowered again, anything else is resharded.
func (e *Emitter) Have(v *graph.Value, s sharding.Spec) (Buf, error) {
	if b, ok := e.bufs[keyOf(v, s)]; ok {
		return b, nil
	}
	var b Buf
	var err error
	if e.asg.Flexible(v) {
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

// flexible lowers v's definition for the placement s, whatever other placements
// it was lowered for.
func (e *Emitter) flexible(v *graph.Value, s sharding.Spec) (Buf, error) {
	eqn := e.Eqn
	defer func() { e.Eqn = eqn }()
	e.Eqn = v.Def
	dec, err := sharding.ShardAs(e.asg.Context(v.Def), s)
	if err != nil {
		return Buf{}, err
	}
	in := make([]Buf, len(v.Def.In))
	for i, u := range v.Def.In {
		if in[i], err = e.Have(u, dec.In[i]); err != nil {
			return Buf{}, err
		}
	}
	out := e.Placed(v.Type, s)
	return out, e.rule(v.Def, []Buf{out}, in)
}

func (e *Emitter) rule(q *graph.Eqn, out, in []Buf) error {
	switch p := q.Prim.(type) {
	case graph.FullOp:
		return e.kernel(Instr{Name: "full", Kernel: fill(p.Value, q.Out[0].Type.DType), Flat: true}, out, nil)
	case graph.AddAnyOp:
		if len(in) == 1 {
			e.Alias(out[0], in[0])
			return nil
		}
		return e.Elementwise("add_any", out, in, addAny)
	case Rule:
		return p.Lower(e, out, in)
	default:
		return fmt.Errorf("the primitive has no lowering rule")
	}
}
