package primitives_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

// Arguments may have other placements than the layer needs: whole values are cut where
// they are used, a hidden dimension and experts' columns may be split over a third
// axis, a cotangent is brought to its result's placement,
// and gradients come back to the placements of their values. Only a placement for which
// data would have to move between ranks is refused, with the remedy.
func TestContractOtherPlacements(t *testing.T) {
	p := newProblem(rng(6), primitives.PrepareOp{Experts: 12, Capacity: 5, Align: 2}, 24, 2)
	p.width = 4
	p.kernel, p.g = make([]float64, 12*16), make([]float64, 24*4)
	r := rng(7)
	for i := range p.kernel {
		p.kernel[i] = float64(r.IntN(3) - 1)
	}
	for i := range p.g {
		p.g[i] = float64(r.IntN(5) - 2)
	}
	out, dx, dw, dk := p.dense()
	for _, c := range []struct {
		mesh                           string
		idx, x, w, kernel, ct, refused string
	}{
		{mesh: "dp=2,ep=2", idx: "dp.ep", x: "dp.ep", w: "dp.ep", kernel: "ep", ct: "dp"},
		{mesh: "dp=2,ep=2", idx: "dp.ep", x: "dp.ep", w: "dp.ep", kernel: "ep", ct: ""},
		{mesh: "dp=2,ep=2", idx: "dp.ep", x: "dp.ep", w: "dp.ep", kernel: "", ct: "dp.ep"},
		{mesh: "dp=2,ep=2", idx: "", x: "", w: "", kernel: "", ct: ""},
		{mesh: "dp=2,ep=2", idx: "dp", x: "dp.ep", w: "", kernel: "ep", ct: "dp"},
		{mesh: "dp=2,ep=2", idx: "dp.ep", x: "dp", w: "dp", kernel: "", ct: "dp.ep"},
		{mesh: "ep=2,tp=2", idx: "ep", x: "ep", w: "ep", kernel: "ep,_,tp", ct: "ep,tp"},
		{mesh: "ep=2,tp=2", idx: "ep", x: "ep,tp", w: "ep", kernel: "ep,tp,_", ct: "ep"},
		{mesh: "ep=2,tp=2", idx: "", x: "_,tp", w: "", kernel: "ep,tp", ct: ""},
		{mesh: "tp=2,dp=2,ep=2", idx: "dp.ep", x: "dp.ep", w: "dp.ep", kernel: "ep,_,tp", ct: "dp.ep,tp"},
		{mesh: "tp=2,dp=2,ep=2", idx: "dp.ep", x: "dp.ep,tp", w: "dp.ep", kernel: "ep,tp", ct: "dp.ep"},
		{mesh: "dp=2,ep=2", idx: "dp.ep", x: "dp.ep", w: "dp.ep", kernel: "ep", ct: "ep.dp"},
		{mesh: "dp=2,ep=2", idx: "dp.ep", x: "ep.dp", w: "dp.ep", kernel: "ep", ct: "dp.ep", refused: "sharding_constraint"},
		{mesh: "dp=2,ep=2", idx: "dp.ep", x: "dp.ep", w: "dp.ep", kernel: "dp", ct: "dp.ep", refused: "sharding_constraint"},
		{mesh: "dp=2,ep=2", idx: "dp.ep", x: "dp.ep", w: "dp,ep", kernel: "ep", ct: "dp.ep", refused: "must be whole here"},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			m, err := sharding.ParseMesh(c.mesh)
			require.NoError(t, err)
			fwd := p.program(t, spread{}, graph.F32)
			bwd := pullback(t, fwd)
			in := p.arrays(graph.F32)
			for _, q := range []*graph.Program{fwd, bwd} {
				cfg := gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{}, Options: watched(t)}
				for name, place := range map[string]string{"idx": c.idx, "x": c.x, "w": c.w, "kernel": c.kernel, "ct_0": c.ct} {
					if q.Input(name) != nil {
						if cfg.Place[name], err = sharding.ParseSpec(place); err != nil {
							t.Fatal(err)
						}
					}
				}
				j, err := gomoe.Open(t.Context(), q, cfg)
				if c.refused != "" && q == fwd { // a derivative gathers
					require.ErrorContains(t, err, c.refused)
					require.ErrorContains(t, err, "contract_harness_test.go:")
					continue
				}
				require.NoError(t, err)
				defer j.Close()
				got, err := j.Step(context.Background(), in.only(q))
				require.NoError(t, err)
				if q == fwd {
					same(t, "out", got[0], out)
					continue
				}
				same(t, "gradient of tokens", got[0], dx)
				same(t, "gradient of weights", got[1], dw)
				same(t, "gradient of experts", got[2], dk)
				for i, name := range []string{"x", "w", "kernel"} {
					for _, port := range j.Plan().In {
						if port.Name == name && !port.Spec.Equal(j.Plan().Out[i].Spec) {
							t.Errorf("gradient of %s lies as %s, want %s", name, j.Plan().Out[i].Spec, port.Spec)
						}
					}
				}
			}
		})
	}
}
