package runtime

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// Reshard returns an array with the elements of a, in the plan's placement of the named
// input. a may have another placement and belong to another job, on another mesh of the
// same processes, for example to move weights from a job that trains to one that
// generates. a is unchanged. The elements of a and of the result are in memory at once.
//
// Each rank sends every other rank the elements that it needs and does not hold yet, in
// one all_to_all; the array is never gathered. In a job of one process, and if every rank
// already holds its elements, nothing is exchanged. Otherwise every process calls Reshard
// for the same arrays in the same order, between steps; it blocks on the other processes
// as a step does, and fails like a step.
func (s *Session) Reshard(ctx context.Context, name string, a *Array) (*Array, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.input(name)
	if err != nil {
		return nil, err
	}
	switch {
	case a == nil:
		return nil, errors.New("runtime: reshard: no array, want one that a step of a session has returned")
	case a.spent != "":
		return nil, fmt.Errorf("runtime: reshard %s: its memory was %s", a.Type, a.spent)
	case !a.Type.Equal(p.Type):
		return nil, fmt.Errorf("runtime: reshard: %s is %s, want %s", s.named(p), a.Type, p.Type)
	case len(a.Spec.Pending) > 0 || a.Spec.Ragged != nil:
		return nil, fmt.Errorf("runtime: reshard %s: arrays are whole or split, not pending or ragged", a.Spec.Format(a.Type))
	case len(p.Spec.Pending) > 0:
		return nil, fmt.Errorf("runtime: reshard: %s is placed %s: arrays are whole or split, not pending", s.named(p), p.Spec.Format(p.Type))
	}
	m := &move{a: a, mesh: s.plan.Mesh, to: p.Spec, holders: holders(a)}
	defer goruntime.KeepAlive(a)
	if len(a.ranks) == a.mesh.Ranks() && len(s.local) == m.mesh.Ranks() {
		return s.place(p, &Loan{Fill: m.within})
	}
	if !slices.Equal(a.ranks, s.local) || a.mesh.Ranks() != m.mesh.Ranks() {
		return nil, fmt.Errorf("runtime: reshard: %s: %w", s.named(p), s.apart(a))
	}
	if m.stays() {
		return s.place(p, &Loan{Fill: m.own})
	}
	return s.exchange(ctx, p, m)
}

// apart returns an error about an array of a job for which this process holds other
// ranks.
func (s *Session) apart(a *Array) error {
	return fmt.Errorf("the array lies on ranks %v of the mesh %q, want the session's ranks %v in a mesh of %d ranks, such as %q; the processes of both jobs are the same ones", a.ranks, a.mesh, s.local, s.plan.Mesh.Ranks(), s.plan.Mesh)
}

// move is the state of Reshard for one array.
type move struct {
	a       *Array
	mesh    sharding.Mesh
	to      sharding.Spec
	holders [][]int // of a: by part, the ranks holding it, ascending
}

// holders returns the ranks holding each part, by the number of the part.
func holders(a *Array) [][]int {
	axes := a.Spec.Axes()
	h := make([][]int, a.mesh.Parts(axes))
	for r := range a.mesh.Ranks() {
		n := a.mesh.Index(r, axes)
		h[n] = append(h[n], r)
	}
	return h
}

// box is a part of an array: its start and its shape.
type box struct{ start, shape []int }

func boxOf(s sharding.Spec, m sharding.Mesh, rank int, t graph.Type) box {
	start, part := s.Box(m, rank, t)
	return box{start, part.Shape}
}

// meet returns the intersection of the boxes, and false if it is empty.
func (b box) meet(o box) (box, bool) {
	c := box{make([]int, len(b.start)), make([]int, len(b.start))}
	for d := range b.start {
		c.start[d] = max(b.start[d], o.start[d])
		c.shape[d] = min(b.start[d]+b.shape[d], o.start[d]+o.shape[d]) - c.start[d]
		if c.shape[d] <= 0 {
			return c, false
		}
	}
	return c, true
}

// in returns the offset of b within a part beginning at start.
func (b box) in(start []int) []int {
	at := slices.Clone(b.start)
	for d := range at {
		at[d] -= start[d]
	}
	return at
}

// of returns the type of the box's elements in an array of type t.
func (b box) of(t graph.Type) graph.Type { return graph.Type{DType: t.DType, Shape: b.shape} }

// from returns the box that the rank holds, and wants the box that it needs.
func (m *move) from(rank int) box  { return boxOf(m.a.Spec, m.a.mesh, rank, m.a.Type) }
func (m *move) wants(rank int) box { return boxOf(m.to, m.mesh, rank, m.a.Type) }

// stays reports whether every rank already holds the box that it needs.
func (m *move) stays() bool {
	for r := range m.mesh.Ranks() {
		wants := m.wants(r)
		if slices.Contains(wants.shape, 0) {
			continue
		}
		if has, ok := wants.meet(m.from(r)); !ok || !slices.Equal(has.shape, wants.shape) {
			return false
		}
	}
	return true
}

// own copies a part from the elements that its rank holds.
func (m *move) own(p Part) error {
	m.take(p, p.Rank)
	return nil
}

// within copies a part from the ranks holding it, all of them in this process.
func (m *move) within(p Part) error {
	for _, ranks := range m.holders {
		m.take(p, ranks[0])
	}
	return nil
}

// take copies the elements of p held by the rank.
func (m *move) take(p Part, rank int) {
	held := m.from(rank)
	if both, ok := held.meet(box{p.Start, p.Type.Shape}); ok {
		array.CopyBox(p.Array, both.in(p.Start), m.part(rank), both.in(held.start), both.shape)
	}
}

func (m *move) part(rank int) array.Array { return m.a.parts[slices.Index(m.a.ranks, rank)].Dense() }

// sends returns the elements that one rank sends to another. It returns false if there
// are none: the receiver holds them, or another holder sends them. Each receiver gets a
// part from one of its holders; receivers are distributed over the holders.
func (m *move) sends(from, to int) (box, bool) {
	held := m.from(from)
	ranks := m.holders[m.a.mesh.Index(from, m.a.Spec.Axes())]
	if slices.Contains(ranks, to) || ranks[to%len(ranks)] != from {
		return box{}, false
	}
	return held.meet(m.wants(to))
}

// exchange moves m's array between the ranks of all processes.
func (s *Session) exchange(ctx context.Context, p lowering.Port, m *move) (*Array, error) {
	came := make([][][]byte, len(s.ranks))
	groups, err := s.everyone("all_to_all")
	if err == nil {
		err = s.agree(ctx)
	}
	if err == nil {
		err = s.each(ctx, func(r *rank, ctx context.Context) error {
			i := slices.Index(s.local, r.comm.Rank())
			send, receive := m.buffers(r.comm.Rank())
			came[i] = receive
			c := collective.Call{Op: "all_to_all", DType: p.Type.DType, Bytes: p.Type.Bytes(), Pos: graph.Pos{File: "Session.Reshard"}}
			return groups[i].AllToAll(ctx, c, receive, send)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("runtime: reshard %s to %s: %w", m.a.Spec.Format(m.a.Type), p.Spec.Format(p.Type), err)
	}
	return s.place(p, &Loan{Fill: func(part Part) error {
		m.take(part, part.Rank)
		for from, mem := range came[slices.Index(s.local, part.Rank)] {
			if b, ok := m.sends(from, part.Rank); ok {
				array.CopyBox(part.Array, b.in(part.Start), array.Over(b.of(p.Type), mem), nil, b.shape)
			}
		}
		return nil
	}})
}

// everyone returns the groups of all ranks of the job, one for each rank of this process.
// It returns an error if the groups lack the operation.
func (s *Session) everyone(op string) ([]collective.Group, error) {
	all := make([]int, s.plan.Mesh.Ranks())
	for r := range all {
		all[r] = r
	}
	var groups []collective.Group
	for _, r := range s.ranks {
		g, err := r.comm.Group(all)
		if err != nil {
			return nil, err
		}
		if l, ok := g.(collective.Limited); ok {
			if err := l.Lacks(op); err != nil {
				return nil, err
			}
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// buffers returns the rank's buffers for sending to, and receiving from, every other
// rank.
func (m *move) buffers(rank int) (send, receive [][]byte) {
	n := m.mesh.Ranks()
	send, receive = make([][]byte, n), make([][]byte, n)
	for other := range n {
		if b, ok := m.sends(rank, other); ok {
			x := array.New(b.of(m.a.Type))
			array.CopyBox(x, nil, m.part(rank), b.in(m.from(rank).start), b.shape)
			send[other] = x.Bytes()
		}
		if b, ok := m.sends(other, rank); ok {
			receive[other] = array.New(b.of(m.a.Type)).Bytes()
		}
	}
	return send, receive
}
