package kernels

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// Instr is an instruction of a plan on one rank, with the information needed by kernels.
type Instr struct {
	*lowering.Instr // do not use Kernel or other fields for the host only
	Args, Results   []Operand
	// Zones is the buffer with the rows in use of each local expert, i32[experts], if an
	// argument or a result is ragged. Otherwise its Type is the zero Type.
	Zones Operand
	Mesh  sharding.Mesh
	// Tensors is set if the GPU multiplies 16-bit matrices with tensor operations: launches then are
	// of functions in TensorText.
	Tensors bool

	rank int
	// along lists the axes along which a kernel asked for the rank's index. alone is set if it asked
	// for the rank itself. Other ranks may then need another kernel.
	along [][]string
	alone bool
	// uneven lists the buffers, asked for by a kernel, with types differing between ranks.
	uneven []int
	plan   *lowering.Plan
}

// Operand is an argument or a result of an instruction.
type Operand struct {
	Type   graph.Type // the rank's type; for ragged rows, including the full capacity
	Ragged bool
	Buf    int // number of the plan's buffer
}

// Of returns instruction i of a plan as seen by rank.
func Of(p *lowering.Plan, i, rank int) *Instr {
	in := &Instr{Instr: &p.Instrs[i], Mesh: p.Mesh, rank: rank, plan: p}
	for _, b := range in.In {
		in.Args = append(in.Args, in.Operand(b))
	}
	for _, b := range in.Out {
		in.Results = append(in.Results, in.Operand(b))
	}
	if in.Instr.Zones >= 0 {
		in.Zones = in.Operand(in.Instr.Zones)
	}
	return in
}

// Operand returns a buffer of the plan, such as an operand of a part of a fused instruction.
func (in *Instr) Operand(b int) Operand {
	buf := &in.plan.Bufs[b]
	if buf.Uneven != "" {
		in.uneven = append(in.uneven, b)
	}
	return Operand{buf.On(in.Mesh, in.rank), buf.Spec.Ragged != nil, b}
}

// paramsOf returns parameters of a primitive, by name. Instructions of a primitive without them are left
// to the host.
func paramsOf[T any](p graph.Primitive) (T, error) {
	params, err := graph.ParamsOf[T](p)
	if err != nil {
		return params, refuse("%v", err)
	}
	return params, nil
}

// op returns the operation, None if package ops does not declare it.
func (in *Instr) op() ops.Op {
	op, _ := in.Op.(ops.Op)
	return op
}

// Root returns the buffer that owns the memory of b. Parts of a fused instruction may name a
// value by any buffer of the same memory. A result may lie in the memory of an argument too,
// so a buffer of In is that argument whatever its root is.
func (in *Instr) Root(b int) int { return in.plan.Root(b) }

// Ragged reports whether the instruction works on ragged rows.
func (in *Instr) Ragged() bool { return in.Instr.Zones >= 0 }

// Experts returns the number of the rank's experts whose rows are counted, 0 if there are
// none.
func (in *Instr) Experts() int {
	if !in.Ragged() {
		return 0
	}
	return in.Zones.Type.Len()
}

// Start returns the start of the rank's shard of dimension d of an operand.
func (in *Instr) Start(o Operand, d int) int {
	b := &in.plan.Bufs[o.Buf]
	in.along = append(in.along, b.Spec.At(d))
	start, _ := b.Spec.Part(in.Mesh, in.rank, b.Global, d)
	return start
}

// Index returns the rank's index along axes; the first axis varies slowest.
func (in *Instr) Index(axes []string) int {
	in.along = append(in.along, axes)
	return in.Mesh.Index(in.rank, axes)
}

// Rank returns the rank that the kernel is for.
func (in *Instr) Rank() int {
	in.alone = true
	return in.rank
}

// fits reports whether the kernel built for in also serves rank.
func (in *Instr) fits(rank int) bool {
	for _, axes := range in.along {
		if in.Mesh.Index(rank, axes) != in.Mesh.Index(in.rank, axes) {
			return false
		}
	}
	for _, b := range in.uneven {
		if buf := &in.plan.Bufs[b]; !buf.On(in.Mesh, rank).Equal(buf.On(in.Mesh, in.rank)) {
			return false
		}
	}
	return !in.alone || rank == in.rank
}

// host returns the rank's arguments for the host's errors; the kernel does not depend on it.
func (in *Instr) host() *exec.Args { return &exec.Args{Mesh: in.Mesh, Rank: in.rank} }
