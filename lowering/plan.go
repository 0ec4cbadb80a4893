package lowering

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// Plan is the program run by every rank: instructions over buffers. It is immutable and
// may be run by any number of ranks and sessions at once.
type Plan struct {
	Name    string
	Mesh    sharding.Mesh
	Bufs    []Buffer
	Instrs  []Instr
	In, Out []Port
	// Arena is the size in bytes of the memory holding a rank's temporaries.
	Arena int64
	// Donated pairs inputs with the results that reuse their memory.
	Donated []Donation
	// Target is the name of the plan's device, "" for the host.
	Target string

	unplaced bool // temporaries have no place in the arena yet
}

// Port is an input or a result of the plan.
type Port struct {
	Name string
	Type graph.Type // global
	Spec sharding.Spec
	Buf  int
}

// Donation allows result Out to be written over input In.
type Donation struct {
	In, Out int
	// InPlace is true if the plan writes the result into the input's memory; otherwise
	// the input's memory is free for reuse after the step.
	InPlace bool
}

// Storage is the origin of a buffer's memory.
type Storage uint8

const (
	Temp   Storage = iota // in the arena, at Offset
	Input                 // given by the caller
	Output                // given to the caller
	Alias                 // the memory of another buffer
	Chunk                 // only inside a fused instruction, one chunk at a time
	Kept                  // the session's memory: a copy of an input that outlasts the step
)

// Buffer is one rank's part of a value.
type Buffer struct {
	Type    graph.Type // local: the largest part's, if ranks' parts differ in size
	Spec    sharding.Spec
	Global  graph.Type
	Uneven  string // the type in the plan's text if ranks' parts differ in size, else ""; see sharding.Spec.Uneven
	Storage Storage
	Of      int // for an Alias, the buffer that it shares memory with; see Root
	// After are the buffers with makers that must precede the readers of this buffer, an
	// Alias (see graph.BarrierOp).
	After  []int
	Offset int64 // bytes from the start of the arena, for Temp
	Pos    graph.Pos
	// Name is the name of the value in the program, "" if it has none.
	Name string
	// Group, if not 0, is the number of a group of consecutive temporaries, each aligned,
	// in the order read by an instruction.
	Group int
	// Packed, for a buffer of u8[rows, bytes], has the types of the arrays with entries
	// concatenated in each row, the same on every rank; nil if they differ between ranks.
	// Unwritten rows, and unwritten parts of the buffer, are undefined.
	Packed []graph.Type
	// Def and Last are the first and the last instruction touching the memory.
	Def, Last int
}

// Instr is one kernel, collective or loop: its computation and its buffers. Host has the
// fields of kernels of the host, Collective the fields of collectives; the other one of
// the two is zero.
type Instr struct {
	Op      Op
	Prim    graph.Primitive // the primitive it was lowered from, nil for the engine's own
	Does    graph.Primitive // the kernel's computation, if that is only one step of Prim; see KernelSpec
	Out, In []int           // buffers
	// Indexed lists the arguments with rows that are read through an index: row i is row index[i] of
	// the argument, and there is none if that is -1. The indices, i32, follow the other arguments.
	Indexed []int
	Pos     graph.Pos
	InPlace bool     // a result may alias any argument of its type
	Over    [][2]int // further pairs of a result and an argument that it may alias; see KernelSpec
	Within  bool     // result 0 may lie within argument 0; see KernelSpec

	// Zones is the buffer with the number of rows in use of each local expert, for ragged
	// arguments and results; -1 if there are none. Each expert's rows begin at a multiple
	// of Align.
	Zones int
	Align int

	// On: the plan's target runs the kernel. Otherwise the host runs it and, if the plan
	// has a target, Why gives the reason.
	On  bool
	Why string

	Host
	Collective
	// Loop has the fields of an instruction running the plan of a loop's body; the other
	// two are then zero.
	Loop *Loop
}

// Op is the operation of an instruction. Package ops declares the operations of the runtime and of
// package primitives. A package with primitives of its own declares constants of a type of its own.
// Operations are compared; their text is only printed.
type Op interface{ String() string }

// Name returns the name of the instruction in plans and reports.
func (in *Instr) Name() string {
	if len(in.Chain) == 0 {
		return in.Op.String()
	}
	names := make([]string, len(in.Chain))
	for i := range in.Chain {
		names[i] = in.Chain[i].Name()
	}
	return in.Op.String() + "(" + strings.Join(runs(names), ", ") + ")"
}

// Host has the fields of a kernel of the host.
type Host struct {
	Kernel exec.Kernel
	Flat   bool // elementwise or a repetition; see KernelSpec
	Repeat int  // for a repetition of its argument, the number of times that each element is repeated before the next
	// Chain are the instructions that a fused instruction runs on each chunk, in this
	// order. Results read only inside the chain have storage Chunk.
	Chain []Instr
	// Packs are the packed copies of arguments making the kernel faster. The copies in
	// use are its last arguments; Kept lists their sources among the arguments.
	Packs []Pack
	Kept  []int
	// Slabs are the arguments that the kernel reads by array.Array.Slab only. Their
	// arrays may be made by array.InSlabs.
	Slabs []int
	// Through are the arguments with rows that the kernel can read through an index; see Instr.Indexed.
	Through []int
	// Keeps marks an instruction making such a copy. It is skipped in steps with an
	// existing copy, or if the copy is not worth making.
	Keeps bool
	// Scratch is the memory in bytes that the kernel uses on every thread, as far as
	// known before the kernel runs.
	Scratch int64
	Dry     exec.Kernel // for dry runs; see KernelSpec
}

// Collective has the fields of an exchange between ranks.
type Collective struct {
	Exchange exec.Exchange
	Axes     []string // ranks differing along these axes take part
	Seq      int      // the number of the collective in the plan
	Bytes    int64    // the largest payload of a rank
	DType    graph.DType
	Travels  bool // it sends rows to their experts or back
	Pairs    bool // sums are added in pairs; see collective.Call
	// Wait is the instruction before which the collective is waited for; the instructions
	// in between overlap with it. len(Plan.Instrs) stands for the end of the plan; 0
	// means that nothing overlaps with the collective.
	Wait int
}

// Communicates reports whether the instruction is a collective.
func (in *Instr) Communicates() bool { return in.Exchange != nil }

// IndexOf returns the number of the argument that is the index of argument arg, -1 if that has none.
func (in *Instr) IndexOf(arg int) int {
	k := slices.Index(in.Indexed, arg)
	if k < 0 {
		return -1
	}
	return len(in.In) - len(in.Kept) - len(in.Indexed) + k
}

// text returns the type of a rank's part.
func (b *Buffer) text() string {
	if b.Uneven != "" {
		return b.Uneven
	}
	return b.Type.String()
}

// On returns the type of the rank's part.
func (b *Buffer) On(m sharding.Mesh, rank int) graph.Type {
	if b.Uneven == "" {
		return b.Type
	}
	_, t := b.Spec.Box(m, rank, b.Global)
	return t
}

// like reports whether both buffers have parts of equal types on every rank.
func (b *Buffer) like(o *Buffer) bool { return b.Type.Equal(o.Type) && b.Uneven == o.Uneven }

// On returns the plan for the rank: buffers have the types of its own parts.
// Instructions, places in memory and the text of the plan are the same on every rank.
func (p *Plan) On(rank int) *Plan {
	var q *Plan
	for i, b := range p.Bufs {
		if b.Uneven == "" {
			continue
		}
		if q == nil {
			c := *p
			q = &c
			q.Bufs = slices.Clone(p.Bufs)
		}
		q.Bufs[i].Type = b.On(p.Mesh, rank)
	}
	if q == nil {
		return p
	}
	return q
}

// Root returns the buffer owning b's memory.
func (p *Plan) Root(b int) int {
	for p.Bufs[b].Storage == Alias {
		b = p.Bufs[b].Of
	}
	return b
}

// String returns the canonical text of the plan, from which Hash is computed.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "plan %s mesh %q ranks=%d arena=%d", p.Name, p.Mesh.String(), p.Mesh.Ranks(), p.Arena)
	if p.Target != "" {
		fmt.Fprintf(&b, " device=%s", p.Target)
	}
	if n := p.kept(); n > 0 {
		fmt.Fprintf(&b, " kept=%d", n)
	}
	b.WriteByte('\n')
	p.lines(&b)
	return b.String()
}

// lines prints the plan without its first line.
func (p *Plan) lines(b *strings.Builder) {
	for _, in := range p.In {
		fmt.Fprintf(b, "\tin  %-12s %s %s\n", graph.Shown(in.Name), in.Spec.Format(in.Type), p.slot(in.Buf))
	}
	for i := range p.Instrs {
		in := &p.Instrs[i]
		mark := " "
		if in.Communicates() {
			mark = "⇄"
		} else if in.On {
			mark = "◆"
		}
		fmt.Fprintf(b, "\t%3d %s %s", i, mark, p.instr(in))
		for j := range in.Chain {
			fmt.Fprintf(b, "\t    . %s", p.instr(&in.Chain[j]))
		}
		if in.Loop != nil {
			in.Loop.print(b)
		}
	}
	donated := map[int]Donation{} // by the result, each reusing one input
	for _, d := range p.Donated {
		donated[d.Out] = d
	}
	for i, out := range p.Out {
		fmt.Fprintf(b, "\tout %-12s %s %s", graph.Shown(out.Name), out.Spec.Format(out.Type), p.slot(out.Buf))
		if d, ok := donated[i]; ok {
			fmt.Fprintf(b, " takes over %s", graph.Shown(p.In[d.In].Name))
			if d.InPlace {
				b.WriteString(" in place")
			}
		}
		b.WriteByte('\n')
	}
}

// instr prints one instruction without its chain.
func (p *Plan) instr(in *Instr) string {
	var b strings.Builder
	for j, o := range in.Out {
		if j > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s", p.slot(o), p.Bufs[o].text())
	}
	fmt.Fprintf(&b, " = %s(", in.Name())
	own, copies := len(in.In)-len(in.Kept)-len(in.Indexed), len(in.In)-len(in.Kept)
	for j, a := range in.In {
		if own <= j && j < copies {
			continue // printed with its argument
		}
		if j > 0 {
			b.WriteString(", ")
		}
		b.WriteString(p.slot(a))
		if at := in.IndexOf(j); at >= 0 {
			fmt.Fprintf(&b, "[%s]", p.slot(in.In[at]))
		}
	}
	b.WriteByte(')')
	if in.Zones >= 0 {
		fmt.Fprintf(&b, " rows=%s", p.slot(in.Zones))
	}
	if in.Communicates() {
		fmt.Fprintf(&b, " over %s #%d %s %d bytes", strings.Join(in.Axes, "."), in.Seq, in.DType, in.Bytes)
		if in.Pairs {
			b.WriteString(" in pairs")
		}
		b.WriteString(p.until(in))
	} else if in.Prim != nil {
		b.WriteString(graph.ParamString(in.Prim))
	}
	if in.Why != "" && !in.Communicates() {
		fmt.Fprintf(&b, " (host: %s)", in.Why)
	}
	fmt.Fprintf(&b, " # %s", in.Pos)
	if name := p.named(in); name != "" {
		b.WriteString(": " + name)
	}
	b.WriteByte('\n')
	return b.String()
}

// named returns the names of the values made by an instruction, of many the first.
func (p *Plan) named(in *Instr) string {
	const shown = 6
	var names []string
	for _, b := range in.Out {
		if name := p.Bufs[b].Name; name != "" {
			names = append(names, graph.Shown(name))
		}
	}
	if more := len(names) - shown; more > 0 {
		names = append(names[:shown], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// slot prints a buffer with its storage: b3@128 is at offset 128 of the arena, b3 exists
// only inside a fused instruction.
func (p *Plan) slot(b int) string {
	r := p.Root(b)
	switch buf := p.Bufs[r]; buf.Storage {
	case Input:
		return fmt.Sprintf("b%d@in", b)
	case Output:
		return fmt.Sprintf("b%d@out", b)
	case Kept:
		return fmt.Sprintf("b%d@kept", b)
	case Chunk:
		return fmt.Sprintf("b%d", r)
	default:
		if p.unplaced {
			return fmt.Sprintf("b%d", b)
		}
		return fmt.Sprintf("b%d@%d", b, buf.Offset)
	}
}

// kept returns the size in bytes of all copies that outlast a step.
func (p *Plan) kept() int64 {
	var sum int64
	for _, b := range p.Bufs {
		if b.Storage == Kept {
			sum = plus(sum, b.Type.Bytes())
		}
	}
	return sum
}

// Hash returns a hash of the plan's text. Ranks compare it before running.
func (p *Plan) Hash() string {
	h := sha256.Sum256([]byte(p.String()))
	return hex.EncodeToString(h[:8])
}
