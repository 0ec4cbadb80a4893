package lowering

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every pass comes after the passes that it needs, and the table says why.
func TestPassesInOrder(t *testing.T) {
	before := map[string]bool{}
	for i, x := range Passes() {
		if before[x.Name] || x.Does == "" || (i > 0) != (x.run != nil && len(x.Needs) > 0) {
			t.Errorf("pass %d, %q, is not described, or is there twice", i, x.Name)
		}
		for _, n := range x.Needs {
			if !before[n.Pass] || n.Why == "" {
				t.Errorf("pass %s needs %s before it, which does not come before, or not for a reason", x.Name, n.Pass)
			}
		}
		before[x.Name] = true
	}
}

// A plan is made up to the pass that is named, which must be one that runs.
func TestAfter(t *testing.T) {
	made := func(after string) (*Plan, error) {
		p := checked(t)
		p.Donated, p.unplaced = nil, true
		p.Bufs[bufNew].Storage, p.Bufs[bufNew].Of = Output, 0
		return p, p.run(t.Context(), &Options{Donate: map[string]int{"w": 1}, After: after, Check: true})
	}
	p, err := made("emit")
	require.NoError(t, err)
	require.Empty(t, p.Donated)
	p, err = made("donate")
	require.NoError(t, err)
	require.True(t, p.Donated[0].InPlace)
	require.True(t, p.unplaced)
	require.Contains(t, p.String(), "b3 f32[16] = product(", "without a place in the arena")
	p, err = made("")
	require.NoError(t, err)
	require.False(t, p.unplaced)
	_, err = made("wait")
	require.EqualError(t, err, "lowering: pass wait does not run with these options, so there is no plan after it")
	_, err = made("fold")
	require.EqualError(t, err, "lowering: no pass \"fold\", want one of emit, join, keep, fuse, bundle, delay, hoist, sum, adjoin, wait, donate, memory, target")
}

// If a pass breaks a plan, the error names the pass.
func TestCheckAfterPass(t *testing.T) {
	p := checked(t)
	p.Donated, p.unplaced = nil, true
	p.Bufs[bufNew].Storage, p.Bufs[bufNew].Of = Output, 0
	spoils := func(p *Plan, i int) ([]int, Instr, bool) {
		in := p.Instrs[i]
		in.Out = []int{bufY}
		return nil, in, i == 1 && p.Instrs[1].Out[0] != bufY
	}
	err := p.run(t.Context(), &Options{Joins: [][]Join{{func(v *Peephole, i int) ([]int, Instr, bool) { return spoils(v.Plan, i) }}}, Check: true})
	require.ErrorContains(t, err, "after pass join: lowering: plan p: instruction 5, mul (m.go:6): b8 f32[16]: is written a second time, first by instruction 1")
}
