package primitives_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// Sums of split tokens travel in the type of PrepareOp.Wire. Each rank's sum is then off by at
// most its size times u, half a step of that type, and no weight's gradient changes.
func TestContractSumsOfSplitTokensOnTheWire(t *testing.T) {
	const tokens, k, experts = 24, 4, 12
	s := spread{mesh: "dp=2,ep=3", tokens: "dp.ep", exchange: ep.Sum}
	unit := map[graph.DType]float64{graph.F64: 0, graph.F32: 1. / (1 << 24), graph.BF16: 1. / 256, graph.F16: 1. / 2048}
	for _, d := range []graph.DType{graph.F32, graph.F64, graph.BF16, graph.F16} {
		p := newProblem(rng(4), primitives.PrepareOp{Experts: experts, Capacity: 9}, tokens, k)
		in := p.arrays(d)
		for _, name := range []string{"x", "w", "kernel", "ct_0"} {
			in[name] = uniform(-1, 1)(rng(8), in[name].Type)
		}
		// The sums of ranks: every third of the experts is on one.
		x, w, kernel := in["x"].Float64s(), in["w"].Float64s(), in["kernel"].Float64s()
		sums := [3][]float64{}
		for r := range sums {
			sums[r] = make([]float64, tokens*p.width)
		}
		size := make([]float64, tokens*p.width) // of the terms, which are rounded to d
		for i, kept := range p.kept() {
			if !kept {
				continue
			}
			for b := range p.width {
				y := 0.0
				for a := range p.hidden {
					v := x[i/k*p.hidden+a] * kernel[(int(p.idx[i])*p.hidden+a)*p.width+b]
					y += v
					size[i/k*p.width+b] += math.Abs(w[i] * v)
				}
				sums[p.idx[i]/4][i/k*p.width+b] += w[i] * y
			}
		}
		grads := s.run(t, pullback(t, p.program(t, s, d)), in)
		for _, wire := range []graph.DType{graph.NoDType, graph.F32, graph.BF16, graph.F16} {
			q := *p
			q.layer.Wire = wire
			prog := q.program(t, s, d)
			travels := wire
			if wire == graph.NoDType {
				travels = d
			}
			got := s.run(t, prog, in)[0]
			require.Equal(t, d, got.Type.DType)
			rounded := false
			for i, y := range got.Float64s() {
				exact, off := 0.0, 0.0
				for r := range sums {
					exact += sums[r][i]
					off += unit[travels] * math.Abs(sums[r][i])
				}
				// Terms are rounded three times to d, in f32 at least, and the result once.
				off += 4*max(unit[d], 1e-7)*size[i] + unit[d]*math.Abs(y)
				if d == graph.F64 {
					off = unit[travels]*size[i] + 1e-14
				}
				if math.Abs(y-exact) > off {
					t.Errorf("%s over %s: element %d is %g, exactly %g, off by %g of at most %g", d, travels, i, y, exact, y-exact, off)
				}
				rounded = rounded || y != exact
			}
			if travels != d && !rounded {
				t.Errorf("%s over %s: nothing is rounded", d, wire)
			}
			back := s.run(t, pullback(t, prog), in)
			tol := 8*unit[travels] + 4*unit[d] + 1e-6
			if diff, at := array.MaxDiff(back[0], grads[0]); !(diff <= tol*max(1, largest(grads[0]))) {
				t.Errorf("%s over %s: gradient of token %d differs by %g", d, travels, at, diff)
			}
			sameBits(t, "gradient of weights", back[1], grads[1])
			sameBits(t, "gradient of experts", back[2], grads[2])

			plan, err := gomoe.Compile(t.Context(), prog, s.config(t, prog))
			require.NoError(t, err)
			home := ""
			for _, x := range exchanges(plan) {
				if strings.HasPrefix(x, "all_to_all") && strings.HasSuffix(x, "ep_combine") {
					home = x
				}
			}
			// 4 tokens of a rank, each with a row of 3 values for 3 ranks.
			want := map[int]string{2: "all_to_all ep 72 B ep_combine", 4: "all_to_all ep 144 B ep_combine", 8: "all_to_all ep 288 B ep_combine"}
			require.Equal(t, want[travels.Size()], home, "%s over %s", d, travels)
		}
	}
}
