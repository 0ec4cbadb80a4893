package lowering_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/lowering"
)

// squares is a target that squares values, but not those without dimensions.
type squares struct{}

func (squares) Name() string { return "squarer" }

func (squares) Serves(p *lowering.Plan, i int) string {
	in := &p.Instrs[i]
	switch {
	case in.Communicates():
		panic("a collective is nobody's kernel")
	case in.Name() != "square":
		return "there is no kernel for it"
	case p.Bufs[in.Out[0]].Type.Rank() == 0:
		return "one element"
	}
	return ""
}

// A plan for a target shows which instructions the target runs, and why the host runs
// others. It has another hash than the host's plan.
func TestTarget(t *testing.T) {
	s := toy.Setup{Mesh: "a=2", Place: map[string]string{"w": "a", "x": "a"}, Donate: map[string]int{"w": 1}}
	host := plan(t, trace(t, descent), s)
	s.Target = squares{}
	// Optimisations for the host's kernels are left out even if they are asked for.
	s.Overlap = lowering.OverlapCollectives
	l := plan(t, trace(t, descent), s)
	before, _, _ := strings.Cut(text(l), "\t  3 ")
	require.Equal(t, `plan p mesh "a=2" ranks=2 arena=256 device=squarer
	in  w            f32[8@a] b0@in
	in  x            f32[8@a] b1@in
	  0   b2@0 f32[4] = mul(b0@in, b1@in) (host: there is no kernel for it)
	  1 ◆ b3@64 f32[4] = square(b2@0)
	  2   b4@192 f32[] = sum(b3@64) (host: there is no kernel for it)
`, before)
	if host.Hash() == l.Hash() {
		t.Error("ranks with the target and ranks without would take their plans for one")
	}
	for i := range l.Instrs {
		if in := &l.Instrs[i]; in.Communicates() && (in.On || in.Why != "" || in.Wait != 0) {
			t.Errorf("collective %d: on %v, why %q, waited for at %d; want none of it", i, in.On, in.Why, in.Wait)
		}
	}
}

// binder is a target whose instructions read and write at most this number of buffers.
type binder int

func (binder) Name() string                      { return "binder" }
func (binder) Serves(*lowering.Plan, int) string { return "" }
func (b binder) MostBuffers() int                { return int(b) }

// Instructions are fused only while they use no more buffers than the target allows.
func TestMostBuffers(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		sum := tr.Input("x0", graph.F32, 8)
		for i := 1; i < 7; i++ {
			sum = toy.Add(sum, tr.Input(fmt.Sprintf("x%d", i), graph.F32, 8))
		}
		return []*graph.Value{sum}
	})
	for most, want := range map[int][]int{0: {8}, 8: {8}, 7: {7, 3}, 4: {4, 4, 4}, 3: {3, 3, 3, 3, 3, 3}} {
		s := toy.Setup{Chunk: 8}
		if most > 0 {
			s.Target = binder(most)
		}
		l := plan(t, p, s)
		var got []int
		for i := range l.Instrs {
			got = append(got, len(l.Instrs[i].In)+len(l.Instrs[i].Out))
		}
		slices.SortFunc(got, func(a, b int) int { return b - a })
		require.Equal(t, want, got, "at most %d buffers:\n%s", most, l)
	}
}

// picky is a target that runs all instructions except those with names of a list.
type picky struct{ not []string }

func (picky) Name() string { return "picky" }

func (t picky) Serves(p *lowering.Plan, i int) string {
	in := &p.Instrs[i]
	parts := in.Chain
	if len(parts) == 0 {
		parts = []lowering.Instr{*in}
	}
	for k := range parts {
		if slices.Contains(t.not, parts[k].Name()) {
			return "no " + parts[k].Name()
		}
	}
	return ""
}

// asked is picky that is also a Chainer: it is asked before instructions are fused.
type asked struct{ picky }

func (t asked) Fusible(p *lowering.Plan, i int) bool {
	if p.Instrs[i].Chain != nil {
		panic("what is fused was made already")
	}
	return t.Serves(p, i) == ""
}

// A chain is cut where the target cannot run an instruction, and what is on both sides of
// that instruction stays on the target. Instructions of the host are fused with each other.
// A constant goes to its readers on both sides, unless the target cannot make it.
func TestFusible(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x, y := tr.Input("x", graph.F32, 8), tr.Input("y", graph.F32, 8)
		c := tr.Apply(graph.FullOp{Value: 2, DType: graph.F32, Shape: []int{8}})[0]
		a := toy.Add(toy.Mul(x, y), c)
		b := toy.Square(toy.Square(toy.Add(a, c)))
		return []*graph.Value{toy.Mul(toy.Mul(b, y), c)}
	})
	names := func(target lowering.Target) (list []string) {
		l := plan(t, p, toy.Setup{Chunk: 8, Target: target})
		for i := range l.Instrs {
			list = append(list, fmt.Sprintf("%v %s %s", l.Instrs[i].On, l.Instrs[i].Name(), l.Instrs[i].Why))
		}
		return list
	}
	const whole = "fused(mul, full, add ×2, square ×2, mul ×2) "
	for _, c := range []struct {
		target lowering.Target
		want   []string
	}{
		{picky{}, []string{"true " + whole}},
		{asked{}, []string{"true " + whole}},
		{picky{[]string{"square"}}, []string{"false " + whole + "no square"}},
		{asked{picky{[]string{"square"}}}, []string{"true fused(mul, full, add ×2) ", "false fused(square ×2) no square", "true fused(mul, full, mul) "}},
		{asked{picky{[]string{"square", "full"}}}, []string{"false full no full", "true fused(mul, add ×2) ", "false fused(square ×2) no square", "true fused(mul ×2) "}},
		{asked{picky{[]string{"add"}}}, []string{"true mul ", "false fused(full, add ×2) no add", "true fused(square ×2, mul, full, mul) "}},
	} {
		require.Equal(t, c.want, names(c.target), "%#v", c.target)
	}
}
