package primitives_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// every has TestPlacements, TestRowsAreNotCopied and tests on the meshes of the contract run all of their cases, as make
// programs does. Without it they run a fixed sample.
var every = flag.Bool("every", false, "run all placements, layers and meshes, not a sample")

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// A row gives a primitive its golden texts, a gradient check for every float input, a
// check of its second derivative, runs in f32 and bf16 that are compared with f64, and
// the comparison of one rank with several for every placement that its rule
// accepts.
type row struct {
	prim string
	line string // where the row stands
	// src are programs that use the primitive, with f64 for floats: at least three,
	// one with an empty dimension and one with a dimension of size 1.
	src []string
	// in makes inputs by name; others are uniform in [-1, 1), integers 0..3.
	in map[string]func(r *rand.Rand, t graph.Type) array.Array
	// tol32 and tol16 bound the error of f32 and bf16 relative to the largest
	// element; 0 means 1e-5 and 2e-2, negative leaves the run out.
	tol32, tol16 float64
	// reassociates marks results that may differ in the last bits between
	// meshes, being sums over a split axis.
	reassociates bool
	// whole marks primitives that no placement splits.
	whole bool
	// once leaves the second derivative out, with the reason.
	once string
}

// at returns r with the line of its caller.
func at(r row) row {
	_, file, line, _ := runtime.Caller(1)
	r.line = fmt.Sprintf("%s:%d", filepath.Base(file), line)
	return r
}

// uniform returns a generator of floats in [lo, hi). As it takes long to quantise, weights in blocks are
// 16 different blocks, in random order.
func uniform(lo, hi float64) func(*rand.Rand, graph.Type) array.Array {
	return func(r *rand.Rand, t graph.Type) array.Array {
		elements, size := t.DType.Block()
		few := t
		if t.DType.IsBlock() && t.Len() > 16*elements {
			few = graph.T(t.DType, 16, elements)
		}
		x := make([]float64, few.Len())
		for i := range x {
			x[i] = lo + (hi-lo)*r.Float64()
		}
		a := of(few, x)
		if few.Len() == t.Len() {
			return a
		}
		all := array.New(t)
		for b := range slices.Chunk(all.Bytes(), size) {
			copy(b, a.Bytes()[r.IntN(16)*size:])
		}
		return all
	}
}

// awayFromZero returns a generator of floats of both signs with a size in [lo, hi).
func awayFromZero(lo, hi float64) func(*rand.Rand, graph.Type) array.Array {
	return func(r *rand.Rand, t graph.Type) array.Array {
		x := make([]float64, t.Len())
		for i := range x {
			x[i] = math.Copysign(lo+(hi-lo)*r.Float64(), r.Float64()-0.5)
		}
		return of(t, x)
	}
}

// ints returns a generator of integers from lo to hi-1.
func ints(lo, hi int) func(*rand.Rand, graph.Type) array.Array {
	return func(r *rand.Rand, t graph.Type) array.Array {
		x := make([]float64, t.Len())
		for i := range x {
			x[i] = float64(lo + r.IntN(hi-lo))
		}
		return of(t, x)
	}
}

// values returns a generator of exactly these elements, repeated as needed.
func values(v ...float64) func(*rand.Rand, graph.Type) array.Array {
	return func(_ *rand.Rand, t graph.Type) array.Array {
		x := make([]float64, t.Len())
		for i := range x {
			x[i] = v[i%len(v)]
		}
		return of(t, x)
	}
}

// distinct returns floats, no two of which are closer than 1/n.
func distinct(r *rand.Rand, t graph.Type) array.Array {
	x := make([]float64, t.Len())
	for i, p := range r.Perm(len(x)) {
		x[i] = (float64(p)+0.3*r.Float64())/float64(len(x))*2 - 1
	}
	return of(t, x)
}

func of(t graph.Type, x []float64) array.Array {
	a := array.New(t)
	if err := a.SetFloat64s(x); err != nil {
		panic(err)
	}
	return a
}

func (r row) inputs(p *graph.Program, seed uint64) map[string]array.Array {
	rng := rand.New(rand.NewPCG(seed, 7))
	in := map[string]array.Array{}
	for _, v := range p.In {
		gen := r.in[v.Name]
		switch {
		case gen != nil:
		case v.Type.DType.IsFloat():
			gen = uniform(-1, 1)
		case v.Type.DType == graph.Bool:
			gen = ints(0, 2)
		default:
			gen = ints(0, 3)
		}
		in[v.Name] = gen(rng, v.Type)
	}
	return in
}

// rows returns the tables of all families. Each family has a file with its own.
func rows() []row {
	return slices.Concat(
		elementwiseRows(),
		shapeRows(),
		reduceRows(),
		composedRows(),
		randomRows(),
		moeRows(),
	)
}

// TestComplete fails for a primitive without a row, and for rows without the
// shapes that break kernels.
func TestComplete(t *testing.T) {
	byName := map[string]row{}
	for _, r := range rows() {
		if _, ok := byName[r.prim]; ok {
			t.Errorf("%s: a second row for %s; add its programs to the first", r.line, r.prim)
		}
		byName[r.prim] = r
	}
	for _, p := range append(primitives.All(), graph.FullOp{}, graph.AddAnyOp{}, graph.PlaceLikeOp{}, graph.BarrierOp{}) {
		r, ok := byName[p.Name()]
		if !ok {
			t.Errorf("primitive %s has no row", p.Name())
			continue
		}
		if d, ok := p.(graph.Documented); !ok || d.Doc().Formula == "" {
			t.Errorf("primitive %s has no formula in its Doc", p.Name())
		}
		delete(byName, p.Name())
		empty, one := false, false
		for _, src := range r.src {
			p, err := gomoe.Parse("row", src)
			require.NoError(t, err, r.line)
			for _, e := range p.Eqns {
				for _, v := range append(slices.Clone(e.In), e.Out...) {
					empty = empty || slices.Contains(v.Type.Shape, 0)
					one = one || slices.Contains(v.Type.Shape, 1)
				}
			}
		}
		if len(r.src) < 3 || !empty || !one {
			t.Errorf("%s: %s has %d programs (empty dimension: %v, size-1 dimension: %v), want at least 3 with both", r.line, r.prim, len(r.src), empty, one)
		}
	}
	for name, r := range byName {
		t.Errorf("%s: row for %s, which is no primitive", r.line, name)
	}
}

func eachProgram(t *testing.T, f func(t *testing.T, r row, i int, p *graph.Program)) {
	for _, r := range rows() {
		t.Run(r.prim, func(t *testing.T) {
			for i, src := range r.src {
				p, err := gomoe.Parse(r.prim, src)
				require.NoError(t, err, r.line)
				uses := slices.ContainsFunc(p.Eqns, func(e *graph.Eqn) bool { return e.Prim.Name() == r.prim })
				require.True(t, uses, "%s: program %d does not use %s", r.line, i, r.prim)
				f(t, r, i, p)
			}
		})
	}
}

// TestGolden prints each row's first program and its derivative, and reads both
// back.
func TestGolden(t *testing.T) {
	eachProgram(t, func(t *testing.T, r row, i int, p *graph.Program) {
		texts := []string{p.String()}
		if len(floatInputs(p)) > 0 {
			g, err := vjp.Pullback(p)
			require.NoError(t, err, r.line)
			texts = append(texts, g.String())
		}
		for _, text := range texts {
			q, err := gomoe.Parse("golden", text)
			require.NoError(t, err, "%s: own text is not read back:\n%s", r.line, text)
			if q.String() != text {
				t.Errorf("%s: text changes when read back:\n%s\n%s", r.line, text, q)
			}
		}
		if i > 0 {
			return
		}
		path := filepath.Join("testdata", "golden", r.prim+".graph")
		got := strings.Join(texts, "\n")
		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
			return
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err, "run go test ./primitives -update")
		if string(want) != got {
			t.Errorf("%s: %s\ngot:\n%s\nwant:\n%s", r.line, path, got, want)
		}
	})
}

func floatInputs(p *graph.Program) []string {
	var out []string
	for _, v := range p.In {
		if v.Type.DType.IsFloat() {
			out = append(out, v.Name)
		}
	}
	return out
}

// runner returns the evaluation of p on one rank.
func runner(p *graph.Program) (vjp.Eval, error) {
	j, err := gomoe.Open(context.Background(), p, gomoe.Config{})
	if err != nil {
		return nil, err
	}
	return j.Step, nil
}

// TestGradient checks first and second derivatives against central differences.
func TestGradient(t *testing.T) {
	ctx := context.Background()
	eachProgram(t, func(t *testing.T, r row, i int, p *graph.Program) {
		if len(floatInputs(p)) == 0 {
			return
		}
		in := r.inputs(p, uint64(i))
		rep, err := vjp.Check(ctx, p, in, runner, vjp.CheckOptions{Elements: 40})
		require.NoError(t, err, "%s\n%s", r.line, p)
		if !rep.OK() {
			t.Errorf("%s: derivative of\n%s\n%s", r.line, p, rep)
		}
		for _, ir := range rep.Inputs {
			if ir.Checked == 0 && ir.Rerouted > 0 {
				t.Errorf("%s: nothing of %s was compared:\n%s", r.line, ir.Name, rep)
			}
		}
		if r.once != "" {
			return
		}
		pull, err := vjp.Pullback(p)
		require.NoError(t, err)
		for k, v := range pull.In[len(p.In):] {
			in[v.Name] = uniform(-1, 1)(rand.New(rand.NewPCG(uint64(k), 3)), v.Type)
		}
		rep, err = vjp.Check(ctx, pull, in, runner, vjp.CheckOptions{Elements: 12, Tolerance: 1e-5})
		require.NoError(t, err, "%s: second derivative\n%s", r.line, pull)
		if !rep.OK() {
			t.Errorf("%s: second derivative of\n%s\n%s", r.line, p, rep)
		}
	})
}

var floats = regexp.MustCompile(`\bf64\b`)

// TestElementTypes runs every program in f32 and bf16 and compares with f64.
func TestElementTypes(t *testing.T) {
	ctx := context.Background()
	eachProgram(t, func(t *testing.T, r row, i int, p *graph.Program) {
		for _, c := range []struct {
			name     string
			tol, std float64
		}{{"f32", r.tol32, 1e-5}, {"bf16", r.tol16, 2e-2}, {"f16", r.tol16, 1e-2}} {
			if c.tol < 0 || len(floatInputs(p)) == 0 {
				continue
			}
			if c.tol == 0 {
				c.tol = c.std
			}
			q, err := gomoe.Parse(r.prim, floats.ReplaceAllString(r.src[i], c.name))
			if c.name != "f32" && strings.Contains(r.src[i], " tree=") {
				require.ErrorContains(t, err, "want f32 or f64, whose sums are not rounded on the way", r.line)
				continue
			}
			require.NoError(t, err, r.line)
			in := r.inputs(p, uint64(i))
			low := map[string]array.Array{}
			for _, v := range q.In {
				low[v.Name] = in[v.Name].As(v.Type.DType)
				in[v.Name] = low[v.Name].As(p.Input(v.Name).Type.DType)
			}
			want, err := gomoe.Run(ctx, p, gomoe.Config{}, in)
			require.NoError(t, err, r.line)
			got, err := gomoe.Run(ctx, q, gomoe.Config{}, low)
			require.NoError(t, err, r.line)
			for k := range want {
				scale := 1e-30
				for _, x := range want[k].Float64s() {
					if !math.IsInf(x, 0) && !math.IsNaN(x) {
						scale = max(scale, math.Abs(x))
					}
				}
				if d, at := array.MaxDiff(got[k], want[k]); d > c.tol*scale {
					t.Errorf("%s: result %d in %s: element %d differs by %g from f64, allowed %g\n%s\n%v\n%v", r.line, k, c.name, at, d, c.tol*scale, q, got[k], want[k])
				}
			}
		}
	})
}

// withPullback returns p and, if it has inputs of floats, its pullback, adding the pullback's other inputs to in.
func withPullback(t *testing.T, p *graph.Program, in map[string]array.Array) []*graph.Program {
	t.Helper()
	if len(floatInputs(p)) == 0 {
		return []*graph.Program{p}
	}
	pull, err := vjp.Pullback(p)
	require.NoError(t, err)
	for k, v := range pull.In[len(p.In):] {
		in[v.Name] = uniform(-1, 1)(rand.New(rand.NewPCG(uint64(k), 3)), v.Type)
	}
	return []*graph.Program{p, pull}
}
