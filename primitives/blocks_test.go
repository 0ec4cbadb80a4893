package primitives_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/quant"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// blockInputs returns random floats, and for weights blocks of random floats.
func blockInputs(p *graph.Program, seed uint64) map[string]array.Array {
	r := rand.New(rand.NewPCG(seed, 9))
	in := map[string]array.Array{}
	for _, v := range p.In {
		gen := ints(-1, 4)
		if v.Type.DType.IsFloat() || v.Type.DType.IsBlock() {
			gen = uniform(-1, 1)
		}
		in[v.Name] = gen(r, v.Type)
	}
	return in
}

// groupedProgram is a layer of linear experts with weights in blocks of type d.
func groupedProgram(d graph.DType, float string, tokens, h, f int, transpose bool) string {
	w := fmt.Sprintf("[4,%d,%d]", f, h)
	params := " transpose=true"
	if !transpose {
		w, params = fmt.Sprintf("[4,%d,%d]", h, f), ""
	}
	return fmt.Sprintf(`program p(idx i32[%[1]d,2], x %[2]s[%[1]d,%[3]d], w %[4]s%[5]s) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=4 align=2 axis="a"
	rows = ep_dispatch(x, r) experts=4 align=2 axis="a"
	y = grouped_matmul(rows, w, r)%[6]s
	out = ep_combine(y, r) experts=4 align=2 axis="a"
	return out
}`, tokens, float, h, d, w, params)
}

// blockPrograms multiply x with weights: as the second argument, the first, in a
// batch, over a dimension that is not the last, and by expert.
func blockPrograms(d graph.DType, float string) []string {
	n, _ := d.Block()
	k := max(2*n, 64)
	program := func(x, w, call string) string {
		return fmt.Sprintf("program p(x %s%s, w %s%s) {\n y = dot_general(%s\n return y\n}", float, x, d, w, call)
	}
	all := []string{
		program(fmt.Sprintf("[6,%d]", k), fmt.Sprintf("[10,%d]", k), "x, w) lhs_contract=[1] rhs_contract=[1]"),
		program(fmt.Sprintf("[%d,2,3]", k), fmt.Sprintf("[4,2,%d]", k), "w, x) lhs_contract=[2] rhs_contract=[0]"),
		program(fmt.Sprintf("[3,2,%d]", k), fmt.Sprintf("[2,6,%d]", k), "x, w) lhs_contract=[2] rhs_contract=[2] lhs_batch=[1] rhs_batch=[0]"),
		program("[5,4]", fmt.Sprintf("[4,%d]", k), "x, w) lhs_contract=[1] rhs_contract=[0]"),
		program(fmt.Sprintf("[0,%d]", k), fmt.Sprintf("[3,%d]", k), "x, w) lhs_contract=[1] rhs_contract=[1]"),
		program("[2,0]", "[3,0]", "x, w) lhs_contract=[1] rhs_contract=[1]"),
		program(fmt.Sprintf("[1,%d]", k), fmt.Sprintf("[1,%d]", k), "x, w) lhs_contract=[1] rhs_contract=[1]"),
		groupedProgram(d, float, 8, k, 10, true), groupedProgram(d, float, 6, 4, k, false),
		groupedProgram(d, float, 0, k, 6, true), groupedProgram(d, float, 1, k, 2, true),
		fmt.Sprintf("program p(w %s[4,%d]) {\n y = convert_element_type(w) dtype=%s\n return y\n}", d, k, float),
	}
	if d == graph.Q8_0 { // more rows of weights than are dequantised at a time
		all = append(all, groupedProgram(d, float, 4, 300, k, false), groupedProgram(d, float, 4, k, 300, true))
	}
	return all
}

// In f64, products with weights in blocks are those with the dequantised weights. In
// narrower types they differ by the rounding of the other argument to int8.
func TestBlocksAreNumbers(t *testing.T) {
	ctx := context.Background()
	for _, d := range quant.Types() {
		for float, tol := range map[graph.DType]float64{graph.F64: 1e-12, graph.F32: 0.02, graph.BF16: 0.03, graph.F16: 0.022} {
			for i, src := range blockPrograms(d, float.String()) {
				p, err := gomoe.Parse("blocks", src)
				require.NoError(t, err, src)
				in := blockInputs(p, uint64(i))
				q, err := gomoe.Parse("numbers", strings.NewReplacer(d.String(), "f64", float.String(), "f64").Replace(src))
				require.NoError(t, err)
				numbers := map[string]array.Array{}
				for _, v := range q.In {
					numbers[v.Name] = in[v.Name].As(v.Type.DType)
				}
				want, err := gomoe.Run(ctx, q, gomoe.Config{}, numbers)
				require.NoError(t, err, src)
				got, err := gomoe.Run(ctx, p, gomoe.Config{}, in)
				require.NoError(t, err, src)
				scale := 1e-30
				for _, x := range want[0].Float64s() {
					scale = max(scale, math.Abs(x))
				}
				if want[0].Type.Len() == 1 { // which is near 0 by chance
					x, w := numbers["x"].Float64s(), numbers["w"].Float64s()
					scale = max(scale, norm(x)*norm(w)/math.Sqrt(float64(len(x))))
				}
				if diff, at := array.MaxDiff(got[0], want[0]); diff > tol*scale {
					t.Errorf("%s: element %d differs by %g of the largest\n%s\n%v\n%v", d, at, diff/scale, src, got[0], want[0])
				}
			}
		}
	}
}

func norm(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum)
}

func TestBlocksGradient(t *testing.T) {
	ctx := context.Background()
	for _, d := range quant.Types() {
		for i, src := range blockPrograms(d, "f64") {
			p, err := gomoe.Parse("blocks", src)
			require.NoError(t, err, src)
			if len(floatInputs(p)) == 0 {
				continue
			}
			in := blockInputs(p, uint64(i))
			rep, err := vjp.Check(ctx, p, in, runner, vjp.CheckOptions{Elements: 20})
			require.NoError(t, err, src)
			if !rep.OK() {
				t.Errorf("%s: derivative of\n%s\n%s", d, p, rep)
			}
			pull, err := vjp.Pullback(p)
			require.NoError(t, err)
			text := pull.String()
			if d == graph.Q4_K {
				goldenText(t, filepath.Join("testdata", "blocks", fmt.Sprintf("%d.graph", i)), p.String()+"\n"+text)
			}
			back, err := gomoe.Parse("blocks", text)
			require.NoError(t, err, text)
			if back.String() != text {
				t.Errorf("%s: text changes when read back:\n%s\n%s", d, text, back)
			}
			for k, v := range pull.In[len(p.In):] {
				in[v.Name] = uniform(-1, 1)(rand.New(rand.NewPCG(uint64(k), 3)), v.Type)
			}
			rep, err = vjp.Check(ctx, pull, in, runner, vjp.CheckOptions{Elements: 8, Tolerance: 1e-5})
			require.NoError(t, err)
			if !rep.OK() {
				t.Errorf("%s: second derivative of\n%s\n%s", d, p, rep)
			}
		}
	}
}

func goldenText(t *testing.T, path, got string) {
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run go test ./primitives -update")
	if string(want) != got {
		t.Errorf("%s\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

// One rank and several have the same bits, also in f32, wherever weights are cut,
// except for sums that ranks add.
func TestBlocksPlacements(t *testing.T) {
	for _, d := range []graph.DType{graph.Q8_0, graph.Q4_K} {
		for i, src := range blockPrograms(d, "f32") {
			p, err := gomoe.Parse("blocks", src)
			require.NoError(t, err, src)
			in := blockInputs(p, uint64(i))
			accepted := 0
			for _, q := range withPullback(t, p, in) {
				accepted += placedAlike(t, q, in)
			}
			if one := p.In[0].Type.Shape[0] == 1; accepted == 0 && hasEven(p) && !one {
				t.Errorf("%s: no placement splits anything\n%s", d, src)
			}
		}
	}
}

// placedAlike runs q on some placements of its inputs, compares with one rank, and
// returns how many were accepted.
func placedAlike(t *testing.T, q *graph.Program, in map[string]array.Array) (accepted int) {
	ctx, args := context.Background(), map[string]array.Array{}
	for _, v := range q.In {
		args[v.Name] = in[v.Name]
	}
	want, err := gomoe.Run(ctx, q, gomoe.Config{}, args)
	require.NoError(t, err)
	for _, mesh := range []string{"a=2", "a=2,b=2"} {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		all := placements(q, m)
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, place := range all[:min(len(all), 60)] {
			cfg := gomoe.Config{Mesh: m, Place: place}
			cfg.Poison = true
			plan, err := gomoe.Compile(t.Context(), q, cfg)
			if err != nil {
				if !strings.Contains(err.Error(), "elements; split another dimension") { // of an input
					var ge *graph.Error
					require.ErrorAs(t, err, &ge, "placement %v refused without a source line", place)
				}
				continue
			}
			accepted++
			got, err := gomoe.Run(ctx, q, cfg, args)
			require.NoError(t, err)
			if diff, at := array.MaxDiff(got[0], want[0]); diff != 0 && !(sums(plan) && diff < 1e-4) {
				t.Errorf("mesh %s, placement %v: element %d differs by %g\n%s", mesh, place, at, diff, q)
				return accepted
			}
		}
	}
	return accepted
}

// A row has the same bits for any number of other rows.
func TestBlocksRows(t *testing.T) {
	for _, d := range quant.Types() {
		n, _ := d.Block()
		run := func(rows int) []float32 {
			src := fmt.Sprintf("program p(x f32[%d,%d], w %s[70,%d]) {\n y = dot_general(x, w) lhs_contract=[1] rhs_contract=[1]\n return y\n}", rows, 4*n, d, 4*n)
			return runRows(t, src)
		}
		all := run(40)
		for _, rows := range []int{1, 2, 3, 5, 39} {
			if got := run(rows); !slices.Equal(got, all[:len(got)]) {
				t.Errorf("%s: the first of %d rows differ from those of 40", d, rows)
			}
		}
	}
}

// A token of a layer with experts has the same bits for any number of other tokens.
func TestGroupedBlocksRows(t *testing.T) {
	run := func(tokens int) []float32 {
		return runRows(t, groupedProgram(graph.Q4_K, "f32", tokens, 512, 20, true))
	}
	all := run(60)
	for _, tokens := range []int{1, 2, 4, 9} {
		if got := run(tokens); !slices.Equal(got, all[:len(got)]) {
			t.Errorf("the first of %d tokens differ from those of 60", tokens)
		}
	}
}

// runRows runs a program on inputs beginning with the same elements for any length.
func runRows(t *testing.T, src string) []float32 {
	t.Helper()
	p, err := gomoe.Parse("rows", src)
	require.NoError(t, err)
	in := map[string]array.Array{}
	for _, v := range p.In {
		gen := uniform(-1, 1)
		if v.Name == "idx" {
			gen = values(0, 3, 1, 2, 3, 1, 0, 1)
		}
		in[v.Name] = gen(rand.New(rand.NewPCG(5, 6)), v.Type)
	}
	out, err := gomoe.Run(context.Background(), p, gomoe.Config{}, in)
	require.NoError(t, err)
	return array.Data[float32](out[0])
}
