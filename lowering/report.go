package lowering

import (
	"cmp"
	"math"
	"slices"
)

// Report has the costs of a plan for one rank: memory, and bytes exchanged. It is the
// same for every rank, because all run the same plan. All sizes are in bytes.
type Report struct {
	Plan  string        `json:"plan"`
	Mesh  string        `json:"mesh"`
	Ranks int           `json:"ranks"`
	Mem   Memory        `json:"memory"`
	Comm  Communication `json:"communication"`
	// Device is nil for plans of the host.
	Device *DeviceUse `json:"device,omitempty"`
}

// Memory is the memory allocated by one rank for a step. Total is the sum of the other
// sizes: all of the memory lives as long as the step.
type Memory struct {
	Inputs int64 `json:"inputs"`
	// Results does not count results written over a donated input.
	Results int64 `json:"results"`
	Arena   int64 `json:"arena"`
	// Kept are copies of inputs that outlast the step.
	Kept int64 `json:"kept,omitempty"`
	// Scratch is the memory used by fused instructions on one thread.
	Scratch int64 `json:"scratch"`
	// Workspace is the memory used by kernels such as matrix products and attention in
	// addition to their arguments, on all threads together. Ranks of one process share
	// the threads and their memory.
	Workspace int64 `json:"workspace,omitempty"`
	Total     int64 `json:"total"`
	// Peak is the instruction with the most memory in use.
	Peak Peak `json:"peak"`
	// Buffers are all buffers owning memory, the largest first.
	Buffers []BufferUse `json:"buffers"`
}

// Peak is the instruction at which the buffers in use take the most bytes. Gaps between
// temporaries make the arena larger than their sum.
type Peak struct {
	Instr int    `json:"instruction"` // -1 in a plan without instructions
	Name  string `json:"name"`
	Line  string `json:"line"`
	Live  int64  `json:"live"` // inputs, results, kept copies and temporaries in use
	Temps int64  `json:"temporaries"`
}

// BufferUse describes one buffer.
type BufferUse struct {
	Buf     int    `json:"buffer"`
	Storage string `json:"storage"` // input, result, temporary, kept
	Name    string `json:"name"`    // of the input, even of a copied one, or result, or the instruction writing it
	Type    string `json:"type"`    // global, with its placement; local without one
	Bytes   int64  `json:"bytes"`
	Value   string `json:"value,omitempty"` // the name of its value, if different
	Line    string `json:"line"`
	First   int    `json:"first"` // instructions touching it
	Last    int    `json:"last"`
	// AtPeak is true for a buffer in use at the peak. Share is its fraction of the memory
	// in use there.
	AtPeak bool    `json:"at_peak"`
	Share  float64 `json:"share"`
}

// Communication lists the collectives of a step in order.
type Communication struct {
	Collectives []CollectiveUse `json:"collectives"`
	Totals      []OpTotal       `json:"totals"`
}

// CollectiveUse describes one collective.
type CollectiveUse struct {
	Instr int      `json:"instruction"`
	Seq   int      `json:"seq"`
	Op    string   `json:"op"`
	Axes  []string `json:"axes"`
	Group int      `json:"group"` // ranks taking part
	DType string   `json:"dtype"`
	Bytes int64    `json:"bytes"` // the largest payload of a rank
	// Wait is the instruction before which the collective is waited for, if other
	// instructions overlap with it. The number of instructions stands for the end of the
	// plan; 0 means that nothing overlaps with it.
	Wait int    `json:"wait,omitempty"`
	Prim string `json:"primitive"`
	// Value is the name of its result, "" if it has none.
	Value string `json:"value,omitempty"`
	Line  string `json:"line"`
	// Times is the number of iterations of a loop running it, 0 outside of loops. Instr
	// is then its number in the plan of the loop's body, and Seq its number in the first
	// iteration.
	Times int `json:"times,omitempty"`
}

// OpTotal sums the collectives of one kind.
type OpTotal struct {
	Op    string `json:"op"`
	Count int    `json:"count"`
	Bytes int64  `json:"bytes"`
}

// Report returns the costs of p for each rank if its kernels may use the given number of
// threads; 0 means one thread.
func (p *Plan) Report(threads int) *Report {
	r := &Report{Plan: p.Name, Mesh: p.Mesh.String(), Ranks: p.Mesh.Ranks()}
	r.Mem = p.memory(threads)
	r.Comm = p.communication()
	r.Device = p.deviceUse()
	return r
}

// plus returns the sum of sizes, saturating at the largest int64, as for absurd shapes.
func plus(ns ...int64) int64 {
	var sum int64
	for _, n := range ns {
		if n > math.MaxInt64-sum {
			return math.MaxInt64
		}
		sum += n
	}
	return sum
}

func (p *Plan) memory(threads int) Memory {
	m := Memory{Arena: p.Arena, Buffers: []BufferUse{}}
	inputs, results, writers := p.portNames(p.In), p.portNames(p.Out), p.writers()
	kept := map[int]string{}
	for i := range p.Instrs {
		if in := &p.Instrs[i]; in.Keeps {
			kept[in.Out[0]] = inputs[p.Root(in.In[0])]
		}
	}
	for i, b := range p.Bufs {
		u := BufferUse{Buf: i, Type: b.Spec.Format(b.Global), Bytes: b.Type.Bytes(), Line: b.Pos.String(), First: b.Def, Last: b.Last}
		switch b.Storage {
		case Input:
			u.Storage, u.Name = "input", inputs[i]
			m.Inputs = plus(m.Inputs, u.Bytes)
		case Output:
			u.Storage, u.Name = "result", results[i]
			m.Results = plus(m.Results, u.Bytes)
		case Kept:
			u.Storage, u.Name = "kept", kept[i]
			m.Kept = plus(m.Kept, u.Bytes)
		case Temp:
			if b.Def < 0 {
				continue
			}
			u.Storage, u.Name, u.Value = "temporary", writers[i], b.Name
		default:
			continue
		}
		m.Buffers = append(m.Buffers, u)
	}
	for i := range p.Instrs {
		m.Scratch = max(m.Scratch, p.Instrs[i].Scratch)
	}
	m.Workspace = p.workspace(threads)
	m.Total = plus(m.Inputs, m.Results, m.Arena, m.Kept, m.Scratch, m.Workspace)
	m.Peak = p.peak(m)
	for i := range m.Buffers {
		u := &m.Buffers[i]
		u.AtPeak = u.Storage != "temporary" || u.First <= m.Peak.Instr && m.Peak.Instr <= u.Last
		if u.AtPeak && m.Peak.Live > 0 {
			u.Share = float64(u.Bytes) / float64(m.Peak.Live)
		}
	}
	slices.SortStableFunc(m.Buffers, func(a, b BufferUse) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return m
}

// OfRanks returns the bytes that the given number of ranks of one process need together.
// They share the threads and their workspace.
func (m *Memory) OfRanks(ranks int) int64 {
	sum := m.Workspace
	for range ranks {
		sum = plus(sum, m.Total-m.Workspace)
	}
	return sum
}

// writers returns for each buffer the name of the instruction, or of the instruction in a
// chain, that touches it first.
func (p *Plan) writers() map[int]string {
	names := map[int]string{}
	for b := range p.Bufs {
		if def := p.Bufs[b].Def; def >= 0 {
			names[b] = p.Instrs[def].Name()
		}
	}
	for i := range p.Instrs {
		for k := range slices.Backward(p.Instrs[i].Chain) {
			for _, b := range p.Instrs[i].Chain[k].Out {
				if p.Bufs[b].Def == i {
					names[b] = p.Instrs[i].Chain[k].Name()
				}
			}
		}
	}
	return names
}

// peak returns the first instruction at which the temporaries take the most memory.
func (p *Plan) peak(m Memory) Peak {
	starts, ends := make([][]int64, len(p.Instrs)), make([][]int64, len(p.Instrs)+2)
	for _, u := range m.Buffers {
		if u.Storage == "temporary" {
			starts[u.First] = append(starts[u.First], u.Bytes)
			ends[u.Last+1] = append(ends[u.Last+1], u.Bytes)
		}
	}
	at := Peak{Instr: -1, Line: "-", Live: plus(m.Inputs, m.Results, m.Kept)}
	var temps int64
	for i := range p.Instrs {
		for _, n := range ends[i] {
			temps -= n
		}
		temps = plus(append(starts[i], temps)...)
		if at.Instr < 0 || temps > at.Temps {
			in := &p.Instrs[i]
			at = Peak{i, in.Name(), in.Pos.String(), plus(m.Inputs, m.Results, m.Kept, temps), temps}
		}
	}
	return at
}

// portNames returns, by the buffer owning its memory, the name of each input or result.
func (p *Plan) portNames(ports []Port) map[int]string {
	names := make(map[int]string, len(ports))
	for _, q := range slices.Backward(ports) { // the first of several names wins
		names[p.Root(q.Buf)] = q.Name
	}
	return names
}

func (p *Plan) communication() Communication {
	c := Communication{Collectives: []CollectiveUse{}, Totals: []OpTotal{}}
	p.collectives(&c, 0, 0)
	for _, u := range c.Collectives {
		k := slices.IndexFunc(c.Totals, func(t OpTotal) bool { return t.Op == u.Op })
		if k < 0 {
			k = len(c.Totals)
			c.Totals = append(c.Totals, OpTotal{Op: u.Op})
		}
		n := max(u.Times, 1)
		c.Totals[k].Count += n
		if u.Bytes > math.MaxInt64/int64(n) {
			c.Totals[k].Bytes = math.MaxInt64
		} else {
			c.Totals[k].Bytes = plus(c.Totals[k].Bytes, int64(n)*u.Bytes)
		}
	}
	slices.SortStableFunc(c.Totals, func(a, b OpTotal) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return c
}

// collectives adds the collectives of the plan to c. The plan is run `times` times, 0 if
// it is no body, and its collectives are numbered from first on.
func (p *Plan) collectives(c *Communication, first, times int) {
	for i := range p.Instrs {
		in := &p.Instrs[i]
		if l := in.Loop; l != nil {
			l.Body.collectives(c, first, max(times, 1)*l.Op.Length)
		}
		first += in.Collectives()
		if !in.Communicates() {
			continue
		}
		u := CollectiveUse{Instr: i, Seq: first - 1, Op: in.Name(), Axes: in.Axes, Group: p.Mesh.Parts(in.Axes), DType: in.DType.String(), Bytes: in.Bytes, Wait: in.Wait, Line: in.Pos.String(), Times: times}
		if in.Prim != nil {
			u.Prim = in.Prim.Name()
		}
		u.Value = p.named(in)
		c.Collectives = append(c.Collectives, u)
	}
}
