package primitives_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// eval parses and runs a program on inputs given by name.
func eval(t *testing.T, cfg gomoe.Config, src string, in map[string]array.Array) []array.Array {
	t.Helper()
	p, err := gomoe.Parse("values", src)
	require.NoError(t, err)
	out, err := gomoe.Run(context.Background(), p, cfg, in)
	require.NoError(t, err)
	return out
}

// composedLarge returns programs that are large enough to be cut into pieces of work. The
// rows along the first dimension do not depend on each other.
func composedLarge() []string {
	return []string{
		"program p(x f32[70,300]) {\n y = softmax(x) axis=1\n return y\n}",
		"program p(x f32[10,300,7]) {\n y = softmax(x) axis=1\n return y\n}",
		"program p(x f32[70,300]) {\n y = log_softmax(x) axis=1\n return y\n}",
		"program p(x f32[10,300,7]) {\n y = logsumexp(x) axis=1\n return y\n}",
		"program p(x f32[70,900], g f32[900]) {\n y = rms_norm(x, g) eps=1e-05\n return y\n}",
		"program p(x f32[70,900], g f32[900], b f32[900]) {\n y = layer_norm(x, g, b) eps=1e-05\n return y\n}",
		"program p(x f32[70,300], labels i32[70]) {\n y = cross_entropy(x, labels)\n return y\n}",
		"program p(x f32[70,300]) {\n y = silu(x)\n return y\n}",
		"program p(x f32[70,300]) {\n y = gelu(x)\n return y\n}",
		"program p(x f32[70,300], u f32[70,300]) {\n y = swiglu(x, u)\n return y\n}",
		"program p(x f32[6,50,4,16], at i32[50]) {\n y = rope(x, at)\n return y\n}",
		"program p(q f32[6,70,4,8], k f32[6,70,2,8], v f32[6,70,2,8]) {\n out, lse = attention(q, k, v)\n return out, lse\n}",
		"program p(q f32[6,70,2,48], v f32[6,70,4,40], g f32[6,70,4], s f32[6,4,48,40]) {\n y, l = recurrence(q, q, v, g, s)\n return y, l\n}",
		"program p(q f32[6,20,2,48], k f32[6,20,2,48], v f32[6,20,4,40], g f32[6,20,4,48], s f32[6,4,48,40], b f32[6,20,4]) {\n y, l = recurrence(q, k, v, g, s, b) rates=true\n return y, l\n}",
		"program p(x f32[6,200,5000], w f32[5000,4], s f32[6,3,5000], b f32[5000]) {\n y, l = causal_convolution(x, w, s, b) silu=true bias=true\n return y, l\n}",
		"program p(x f32[6,200,300], w f32[300,3], s f32[6,2,300], n i32[6]) {\n y, l = causal_convolution(x, w, s, n) lengths=true\n return y, l\n}",
		"program p(table f32[40,300], ids i32[300]) {\n y = embedding(table, ids)\n return y\n}",
	}
}

// The bits of results and derivatives do not depend on the number of threads,
// and every element is written.
func TestComposedThreads(t *testing.T) {
	for _, src := range composedLarge() {
		p, err := gomoe.Parse("values", src)
		require.NoError(t, err)
		pull, err := vjp.Pullback(p)
		require.NoError(t, err)
		in := row{}.inputs(pull, 5)
		for _, q := range []*graph.Program{p, pull} {
			args := map[string]array.Array{}
			for _, v := range q.In {
				args[v.Name] = in[v.Name]
			}
			want, err := gomoe.Run(context.Background(), q, gomoe.Config{Options: runtime.Options{Threads: 1, Finite: true}}, args)
			require.NoError(t, err)
			got, err := gomoe.Run(context.Background(), q, gomoe.Config{Options: runtime.Options{Threads: 5, Poison: true}}, args)
			require.NoError(t, err)
			for i := range want {
				if !array.Equal(got[i], want[i]) {
					t.Errorf("result %d differs between 1 and 5 threads:\n%s", i, q)
				}
			}
		}
	}
}

// A row of a result, and of a cotangent, has the same bits whatever stands
// beside it.
func TestComposedRowInvariance(t *testing.T) {
	const row0 = 3
	for _, src := range composedLarge() {
		p, err := gomoe.Parse("values", src)
		require.NoError(t, err)
		rows := p.Out[0].Dim(0)
		alone := strings.NewReplacer(fmt.Sprintf("f32[%d,", rows), "f32[1,", fmt.Sprintf("i32[%d]", rows), "i32[1]").Replace(src)
		require.NotEqual(t, src, alone)
		q, err := gomoe.Parse("values", alone)
		require.NoError(t, err)
		full, err := vjp.Pullback(p)
		require.NoError(t, err)
		one, err := vjp.Pullback(q)
		require.NoError(t, err)
		in := row{}.inputs(full, 5)
		cut := map[string]array.Array{}
		for i, v := range full.In {
			cut[v.Name] = in[v.Name]
			if !v.Type.Equal(one.In[i].Type) {
				cut[v.Name] = in[v.Name].Rows(row0, row0+1)
			}
		}
		compare := func(p, q *graph.Program) {
			a, b := map[string]array.Array{}, map[string]array.Array{}
			for _, v := range p.In {
				a[v.Name], b[v.Name] = in[v.Name], cut[v.Name]
			}
			all, err := gomoe.Run(context.Background(), p, gomoe.Config{}, a)
			require.NoError(t, err)
			single, err := gomoe.Run(context.Background(), q, gomoe.Config{}, b)
			require.NoError(t, err)
			for i := range all {
				if all[i].Type.Shape[0] == rows && !array.Equal(all[i].Rows(row0, row0+1), single[i]) {
					t.Errorf("row %d of result %d differs from the row alone:\n%s", row0, i, p)
				}
			}
		}
		compare(p, q)
		compare(full, one)
	}
}

// A recurrence without a state begins with zeros, of f32 for rows of 16 bits.
func TestRecurrenceWithoutState(t *testing.T) {
	for _, d := range []graph.DType{graph.F32, graph.BF16} {
		p, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
			q, v, g := tr.Input("q", d, 2, 7, 1, 4), tr.Input("v", d, 2, 7, 2, 3), tr.Input("g", d, 2, 7, 2)
			out, last := primitives.Recurrence(q, q, v, g, primitives.RecurrenceParams{})
			again, same := primitives.Recurrence(q, q, v, g, primitives.RecurrenceParams{State: primitives.Full(tr, 0, graph.F32, 2, 2, 4, 3)})
			return []*graph.Value{out, last, again, same}
		})
		require.NoError(t, err)
		require.Equal(t, graph.F32, p.Out[1].Type.DType)
		got, err := gomoe.Run(t.Context(), p, gomoe.Config{}, row{in: gens{"g": uniform(-1, 0)}}.inputs(p, 3))
		require.NoError(t, err)
		require.True(t, array.Equal(got[0], got[2]))
		require.True(t, array.Equal(got[1], got[3]))
	}
}

// In f64 a softmax sums to 1 far more closely than f32 could show.
func TestSoftmaxSum(t *testing.T) {
	x := uniform(-3, 3)(rand.New(rand.NewPCG(2, 2)), graph.T(graph.F64, 9))
	sum := 0.0
	for _, y := range eval(t, gomoe.Config{}, "program p(x f64[9]) {\n y = softmax(x) axis=0\n return y\n}", map[string]array.Array{"x": x})[0].Float64s() {
		sum += y
	}
	if math.Abs(sum-1) > 1e-14 {
		t.Errorf("sum is 1%+g, want 1", sum-1)
	}
}

func TestCrossEntropyInHalfPrecision(t *testing.T) {
	const src = "program p(logits bf16[2,3], labels i32[2]) {\n y = cross_entropy(logits, labels)\n return y\n}"
	in := map[string]array.Array{
		"logits": of(graph.T(graph.BF16, 2, 3), []float64{1, 2, 3, 4, 5, 6}),
		"labels": of(graph.T(graph.I32, 2), []float64{0, -1}),
	}
	loss := eval(t, gomoe.Config{}, src, in)[0]
	want := float32(2 + math.Log(1+math.Exp(-1)+math.Exp(-2)))
	if x := array.Data[float32](loss); x[0] != want || x[1] != 0 {
		t.Errorf("loss is %v, want [%v 0] in f32", x, want)
	}
	// Twice differentiated, the derivative's derivative mixes bf16 and f32.
	p, err := gomoe.Parse("values", src)
	require.NoError(t, err)
	pull, err := vjp.Pullback(p)
	require.NoError(t, err)
	pull, err = vjp.Pullback(pull)
	require.NoError(t, err)
	in["ct_0"] = of(graph.T(graph.F32, 2), []float64{1, 1})
	in["ct2_0"] = of(graph.T(graph.BF16, 2, 3), []float64{1, 0, 0, 1, 0, 0})
	out, err := gomoe.Run(context.Background(), pull, gomoe.Config{}, in)
	require.NoError(t, err)
	e := []float64{math.Exp(-2), math.Exp(-1), 1}
	sum := e[0] + e[1] + e[2]
	p0, p1, p2 := e[0]/sum, e[1]/sum, e[2]/sum
	for i, want := range [][]float64{{p0 * (1 - p0), -p0 * p1, -p0 * p2, 0, 0, 0}, {p0 - 1, 0}} {
		for j, x := range out[i].Float64s() {
			if math.Abs(x-want[j]) > 4e-3 {
				t.Errorf("second derivative: result %d, element %d is %v, want %v", i, j, x, want[j])
			}
		}
	}
}

// Rows for the same id are added in the order of the ids.
func TestEmbeddingGradOrder(t *testing.T) {
	in := map[string]array.Array{
		"ids": of(graph.T(graph.I32, 5), []float64{1, 0, 1, 1, 3}),
		"ct":  of(graph.T(graph.F32, 5, 1), []float64{1e8, 7, 1, -1e8, 2}),
	}
	got := eval(t, gomoe.Config{}, "program p(ids i32[5], ct f32[5,1]) {\n y = embedding_grad(ids, ct) num=4\n return y\n}", in)[0]
	if x := array.Data[float32](got); !slices.Equal(x, []float32{7, 0, 0, 2}) { // (1e8 + 1) - 1e8 is 0 in f32
		t.Errorf("sums are %v, want [7 0 0 2]", x)
	}
}

// A token's rotation depends on its position alone, also where each sequence has positions
// of its own. The inverse undoes the rotation, and elements behind the width stay.
func TestRoPEPositions(t *testing.T) {
	x := uniform(-1, 1)(rand.New(rand.NewPCG(1, 1)), graph.T(graph.F64, 1, 8, 2, 6))
	in := map[string]array.Array{"x": x, "at": ids([]int32{0, 1, 2, 3, 4, 5, 6, 7}, 8)}
	all := eval(t, gomoe.Config{}, "program p(x f64[1,8,2,6], at i32[8]) {\n y = rope(x, at) width=4\n z = rope(y, at) width=4 inverse=true\n return y, z\n}", in)
	if d, _ := array.MaxDiff(all[1], x); d > 1e-14 {
		t.Errorf("the inverse leaves a difference of %v", d)
	}
	each := map[string]array.Array{"x": x.Reshape(2, 4, 2, 6), "at": ids([]int32{0, 1, 2, 3, 4, 5, 6, 7}, 2, 4)}
	two := eval(t, gomoe.Config{}, "program p(x f64[2,4,2,6], at i32[2,4]) {\n y = rope(x, at) width=4\n return y\n}", each)
	if !array.Equal(all[0].Reshape(2, 4, 2, 6), two[0]) {
		t.Error("the second half of a sequence differs from a sequence with its positions")
	}
	y, from := array.Data[float64](all[0]), array.Data[float64](x)
	for i := range y {
		position, head := i/12, i%6
		if head >= 4 {
			if y[i] != from[i] {
				t.Errorf("element %d, behind the width, is %v, want %v", i, y[i], from[i])
			}
			continue
		}
		sin, cos := math.Sincos(float64(position) * math.Pow(10000, -float64(head%2)/2))
		want := from[i]*cos - from[min(i+2, len(from)-1)]*sin
		if head >= 2 {
			want = from[i]*cos + from[i-2]*sin
		}
		if math.Abs(y[i]-want) > 1e-15 {
			t.Errorf("element %d is %v, want %v", i, y[i], want)
		}
	}
}

// The three results of adamw are written over the donated arguments.
func TestAdamWInPlace(t *testing.T) {
	for _, d := range []graph.DType{graph.F64, graph.F32, graph.BF16, graph.F16} {
		src := strings.ReplaceAll("program q(p T[4,6], m T[4,6], v T[4,6], g T[4,6], lr f32[], step i32[], scale f32[]) {\n"+
			" p2, m2, v2 = adamw(p, m, v, g, lr, step, scale) b1=0.9 b2=0.95 eps=1e-08 weight_decay=0.1\n return p2, m2, v2\n}", "T", d.String())
		p, err := gomoe.Parse("values", src)
		require.NoError(t, err)
		in := row{in: gens{"v": uniform(0, 1), "step": values(3)}}.inputs(p, 1)
		want, err := gomoe.Run(context.Background(), p, gomoe.Config{}, in)
		require.NoError(t, err)
		cfg := gomoe.Config{Donate: map[string]int{"p": 0, "m": 1, "v": 2}, Options: runtime.Options{Poison: true}}
		plan, err := gomoe.Compile(t.Context(), p, cfg)
		require.NoError(t, err)
		for _, x := range plan.Donated {
			if !x.InPlace {
				t.Errorf("%s: input %d is not overwritten by result %d", d, x.In, x.Out)
			}
		}
		got, err := gomoe.Run(context.Background(), p, cfg, in)
		require.NoError(t, err)
		for i := range want {
			if !array.Equal(got[i], want[i]) {
				t.Errorf("%s: result %d in place is %v, want %v", d, i, got[i], want[i])
			}
			if array.Equal(got[i], in[[]string{"p", "m", "v"}[i]]) {
				t.Errorf("%s: result %d is the argument", d, i)
			}
		}
	}
}

// Errors that only a run finds name the value and its place in the whole array.
func TestComposedRunErrors(t *testing.T) {
	mesh, err := sharding.ParseMesh("a=2")
	require.NoError(t, err)
	split := func(name string) gomoe.Config {
		return gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{name: sharding.Split("a")}}
	}
	for _, c := range []struct {
		src  string
		in   gens
		cfg  gomoe.Config
		want string
	}{
		{"program p(x f32[4,3], l i32[4]) {\n y = cross_entropy(x, l)\n return y\n}", gens{"l": values(0, 1, 2, 3)}, split("l"), "label 3 at [3], want -1 to 2"},
		{"program p(x f32[4,3], l i32[4]) {\n y = cross_entropy(x, l)\n return y\n}", gens{"l": values(0, -2, 2, 0)}, gomoe.Config{}, "label -2 at [1], want -1 to 2"},
		{"program p(x f32[2,2,3], l i32[2,2], c f32[2,2]) {\n y = cross_entropy_grad(x, l, c)\n return y\n}", gens{"l": values(0, 1, 2, 9)}, split("l"), "label 9 at [1 1], want -1 to 2"},
		{"program p(t f32[3,2], i i32[4]) {\n y = embedding(t, i)\n return y\n}", gens{"i": values(0, 1, 2, -1)}, split("i"), "id -1 at [3], want 0 to 2"},
		{"program p(i i32[4], c f32[4,2]) {\n y = embedding_grad(i, c) num=3\n return y\n}", gens{"i": values(3, 1, 2, 1)}, gomoe.Config{}, "id 3 at [0], want 0 to 2"},
		{"program p(t f32[0,2], i i32[1]) {\n y = embedding(t, i)\n return y\n}", gens{"i": values(0)}, gomoe.Config{}, "id 0 at [0], but the table is empty"},
		{"program p(q f32[2,3,1,2], g f32[2,3,1], s f32[2,1,2,2], n i32[2]) {\n y, l = recurrence(q, q, q, g, s, n) lengths=true\n return y\n}", gens{"n": values(2, 4)}, split("n"), "length 4 at [1], want 0 to 3"},
		{"program p(x f32[2,3,1], w f32[1,2], s f32[2,1,1], n i32[2]) {\n y, l = causal_convolution(x, w, s, n) lengths=true\n return y\n}", gens{"n": values(2, 4)}, split("n"), "length 4 at [1], want 0 to 3"},
		{"program p(x f32[2,3,1], w f32[1,2], s f32[2,1,1], n i32[2]) {\n y, l = causal_convolution(x, w, s, n) lengths=true\n return y\n}", gens{"n": values(-1, 3)}, gomoe.Config{}, "length -1 at [0], want 0 to 3"},
		{"program p(q f32[2,1,1,2], k f32[2,3,1,2], n i32[2]) {\n y, l = attention(q, k, k, n) lengths=true\n return y\n}", gens{"n": values(0, 4)}, split("n"), "length 4 at [1], want 0 to 3"},
		{"program p(c f32[2,3,2], x f32[2,2,2], n i32[2]) {\n y = cache_update(c, x, n)\n return y\n}", gens{"n": values(1, 2)}, split("n"), "start 2 at [1], want 0 to 1"},
		{adamWSrc("2", " eps=1e-08"), gens{"step": values(0)}, gomoe.Config{}, "step 0, want the number of this update"},
	} {
		p, err := gomoe.Parse("values", c.src)
		require.NoError(t, err)
		_, err = gomoe.Run(context.Background(), p, c.cfg, row{in: c.in}.inputs(p, 1))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v, want one with %q:\n%s", err, c.want, c.src)
		}
	}
}

func TestComposedErrors(t *testing.T) {
	for _, c := range []struct{ in, body, want string }{
		{"x f32[2,3]", "softmax(x) axis=2", "axis 2 of f32[2,3], want 0 to 1"},
		{"x f32[2,3]", "softmax(x) axis=-1", "axis -1 of f32[2,3], want 0 to 1"},
		{"x f32[]", "softmax(x)", "want at least 1"},
		{"x i32[2]", "log_softmax(x)", "element type i32"},
		{"x f32[2,3]", "logsumexp(x) axis=99999999999", "want 0 to 1"},
		{"x f32[2,3], y f32[3,2]", "softmax_grad(x, y)", "shapes of f32[2,3] and f32[3,2] differ"},
		{"x f32[2,3], g f32[2]", "rms_norm(x, g)", "gain is f32[2] for rows of f32[2,3], want f32[3]"},
		{"x f32[2,3], g bf16[3]", "rms_norm(x, g)", "gain is bf16[3] for rows of f32[2,3], want f32[3]"},
		{"x f32[2,3], g f32[3]", "rms_norm(x, g) eps=-1", "eps=-1, want a finite number of at least 0"},
		{"x f32[2,3], g f32[3]", "rms_norm(x, g) eps=nan", "eps=NaN"},
		{"x f32[], g f32[]", "rms_norm(x, g)", "want at least 1"},
		{"x f32[2,3], g f32[3], b f32[1]", "layer_norm(x, g, b)", "bias is f32[1]"},
		{"x f32[2,3], l i64[2]", "cross_entropy(x, l)", "labels are i64[2] for logits f32[2,3], want i32[2]"},
		{"x bf16[2,3], l i32[2], c bf16[2]", "cross_entropy_grad(x, l, c)", "the cotangent is bf16[2], want that of the loss f32[2]"},
		{"t f32[2], i i32[2]", "embedding(t, i)", "want 2 dimensions"},
		{"t f32[2,3], i u8[2]", "embedding(t, i)", "ids have element type u8, want i32"},
		{"i i32[2], c f32[2,3]", "embedding_grad(i, c) num=-4", "num=-4"},
		{"i i32[2], c f32[3,3]", "embedding_grad(i, c) num=4", "the cotangent is f32[3,3] for ids i32[2], want f32[2,3]"},
		{"x f32[2,3,4], t i32[2]", "rope(x, t)", "want [B,S,N,D] with D even"},
		{"x f32[1,2,3,5], t i32[2]", "rope(x, t)", "want [B,S,N,D] with D even"},
		{"x f32[1,2,3,4]", "rope(x)", "1 arguments, want 2"},
		{"x f32[1,2,3,4], t i32[3]", "rope(x, t)", "positions are i32[3] for f32[1,2,3,4], want i32[2] or i32[1,2]"},
		{"x f32[1,2,3,4], t i64[2]", "rope(x, t)", "positions are i64[2]"},
		{"x f32[1,2,3,4], t i32[2]", "rope(x, t) base=-3", "base=-3"},
		{"x f32[1,2,3,4], t i32[2]", "rope(x, t) base=inf", "base=+Inf"},
		{"x f32[1,2,3,4], t i32[2]", "rope(x, t) width=3", "width=3 for heads of 4 elements"},
		{"x f32[1,2,3,4], t i32[2]", "rope(x, t) width=6", "width=6 for heads of 4 elements"},
		{"x f32[1,2,3,4], t i32[2]", "rope(x, t) frequencies=[1]", "1 frequencies for a width of 4, want 2"},
		{"x f32[1,2,3,4], t i32[2]", "rope(x, t) frequencies=[1,nan]", "frequency 1 is NaN"},
		{"x f32[1,2,3,4], t i32[2]", "rope(x, t) magnitude=inf", "magnitude=+Inf"},
		{"q f32[1,2,2,4], g f32[1,2,2], s f32[1,2,4,4]", "recurrence(q, q, q, g)", "4 arguments, want 5"},
		{"q i32[1,2,2,4], g f32[1,2,2], s f32[1,2,4,4]", "recurrence(q, q, q, g, s)", "q: "},
		{"q f32[2,2,4], g f32[1,2,2], s f32[1,2,4,4]", "recurrence(q, q, q, g, s)", "q is f32[2,2,4] and v is f32[2,2,4], want q[B,T,M,K] and v[B,T,N,V]"},
		{"q f32[1,2,2,4], k f32[1,2,2,3], g f32[1,2,2], s f32[1,2,4,4]", "recurrence(q, k, q, g, s)", "k is f32[1,2,2,3], want f32[1,2,2,4] as q"},
		{"q f32[1,2,2,4], v f32[1,3,2,4], g f32[1,2,2], s f32[1,2,4,4]", "recurrence(q, q, v, g, s)", "v is f32[1,3,2,4] for q f32[1,2,2,4], want f32[1,2,2,4]"},
		{"q f32[1,2,2,4], v f32[1,2,3,4], g f32[1,2,3], s f32[1,3,4,4]", "recurrence(q, q, v, g, s)", "3 heads of v for 2 heads of q and k, want a multiple"},
		{"q bf16[1,2,2,4], g f16[1,2,2], s f32[1,2,4,4]", "recurrence(q, q, q, g, s)", "decay is f16[1,2,2], want f32[1,2,2] or f32[1,2,2,4]"},
		{"q f32[1,2,2,4], g f32[1,2,2,3], s f32[1,2,4,4]", "recurrence(q, q, q, g, s)", "decay is f32[1,2,2,3], want f32[1,2,2] or f32[1,2,2,4]"},
		{"q f32[1,2,2,4], g f32[1,2,2], s f32[1,2,4,3]", "recurrence(q, q, q, g, s)", "state is f32[1,2,4,3], want f32[1,2,4,4]"},
		{"q f32[1,2,2,4], g f32[1,2,2], s f32[1,2,4,4]", "recurrence(q, q, q, g, s, s) rates=true", "rates are f32[1,2,4,4], want f32[1,2,2]"},
		{"q f32[1,2,2,4], g f32[1,2,2], s f32[1,2,4,4], n i32[2]", "recurrence(q, q, q, g, s, n) lengths=true", "lengths are i32[2], want i32[1]"},
		{"q f32[1,2,2,4], g f32[1,2,2], s f32[1,2,4,4]", "recurrence_grad(q, q, q, g, s, q, q)", "argument 6 is f32[1,2,2,4], want f32[1,2,4,4]"},
		{"x f32[2,3,4], w f32[4,2]", "causal_convolution(x, w)", "2 arguments, want 3"},
		{"x i32[2,3,4], w f32[4,2], s f32[2,1,4]", "causal_convolution(x, w, s)", "x: element type i32"},
		{"x f32[3,4], w f32[4,2], s f32[2,1,4]", "causal_convolution(x, w, s)", "x is f32[3,4] and w is f32[4,2], want x[B,T,C] and w[C,k]"},
		{"x f32[2,3,4], w f32[4,1,2], s f32[2,1,4]", "causal_convolution(x, w, s)", "x is f32[2,3,4] and w is f32[4,1,2], want x[B,T,C] and w[C,k]"},
		{"x f32[2,3,4], w f32[5,2], s f32[2,1,4]", "causal_convolution(x, w, s)", "w is f32[5,2] for x f32[2,3,4], want f32[4,2]"},
		{"x bf16[2,3,4], w f32[4,2], s f32[2,1,4]", "causal_convolution(x, w, s)", "w is f32[4,2] for x bf16[2,3,4], want bf16[4,2]"},
		{"x f32[2,3,4], w f32[4,0], s f32[2,1,4]", "causal_convolution(x, w, s)", "w is f32[4,0], with 0 weights per channel, want 1 to 8"},
		{"x f32[2,3,4], w f32[4,9], s f32[2,8,4]", "causal_convolution(x, w, s)", "w is f32[4,9], with 9 weights per channel, want 1 to 8"},
		{"x f32[2,3,4], w f32[4,3], s f32[2,3,4]", "causal_convolution(x, w, s)", "state is f32[2,3,4] for x f32[2,3,4] and w f32[4,3], want f32[2,2,4]"},
		{"x f32[2,3,4], w f32[4,3], s f32[2,2,4]", "causal_convolution(x, w, s, s) bias=true", "bias is f32[2,2,4] for x f32[2,3,4], want f32[4]"},
		{"x f32[2,3,4], w f32[4,3], s f32[2,2,4], n i32[3]", "causal_convolution(x, w, s, n) lengths=true", "lengths are i32[3] for x f32[2,3,4], want i32[2]"},
		{"x f32[2,3,4], w f32[4,3], s f32[2,2,4]", "causal_convolution_grad(x, w, s, x, x)", "argument 4 is f32[2,3,4], want f32[2,2,4]"},
		{"q f32[1,2,3,4], k f32[1,2,2,4]", "attention(q, k, k)", "3 heads of q for 2 heads of k and v, want a multiple"},
		{"q f32[1,2,3,4], k f32[1,2,0,4]", "attention(q, k, k)", "3 heads of q for 0 heads"},
		{"q f32[1,2,3,4], k f32[2,5,3,4]", "attention(q, k, k)", "k is f32[2,5,3,4] for q f32[1,2,3,4], want f32[1,5,3,4]"},
		{"q f32[1,2,3,4], k f32[1,5,3,4], v f32[1,4,3,4]", "attention(q, k, v)", "v is f32[1,4,3,4] for k f32[1,5,3,4], want f32[1,5,3,4] or another width"},
		{"q f64[1,2,3,4], k f32[1,5,3,4]", "attention(q, k, k)", "k and v are f32 for q f64; want"},
		{"q f32[1,2,3,4], n i32[2]", "attention(q, q, q, n) lengths=true", "lengths are i32[2], want i32[1]"},
		{"q f32[1,2,3,4], n i32[1]", "attention(q, q, q, n)", "4 arguments, want 3"},
		{"q bf16[1,2,3,4], n f16[3]", "attention(q, q, q, n) sinks=true", "sinks are f16[3], want f32[3]"},
		{"q f32[1,2,3,4], n f32[1,2,2,2]", "attention(q, q, q, n) bias=true", "bias is f32[1,2,2,2], want f32[1,3,2,2] with B=1 or 1, N=3 or 1"},
		{"q f32[1,2,3,4]", "attention(q, q, q) window=2 full=true", "window and full"},
		{"q f32[1,2,3,4]", "attention(q, q, q) window=-2", "window=-2"},
		{"q f32[1,2,3,4]", "attention(q, q, q) soft_cap=-1", "soft_cap=-1"},
		{"q f32[1,2,3,4]", "attention(q, q, q) scale=nan", "scale=NaN"},
		{"c f32[2,3,4], x f32[2,4,4], t i32[2]", "cache_update(c, x, t)", "want [B,S,..] of [B,R,..] with S up to R"},
		{"c f32[2,3,4], x f32[2,1,3], t i32[2]", "cache_update(c, x, t)", "update f32[2,1,3] of the cache f32[2,3,4], want f32[2,1,4]"},
		{"c f32[2,3,4], x f32[2,1,4], t i32[3]", "cache_update(c, x, t)", "start is i32[3], want i32[2]"},
		{"c i32[2,3,4], x f32[2,1,4], t i32[2]", "cache_update(c, x, t)", "the cache is i32[2,3,4]"},
		{"c q4_k[2,3,256], x f32[2,1,256], t i32[2]", "cache_update(c, x, t)", "the cache is q4_k[2,3,256]"},
		{"x f32[2], y f32[3]", "swiglu(x, y)", "shapes of f32[2] and f32[3] differ"},
		{"x f32[2], lr f32[], s f32[]", "adamw(x, x, x, x, lr, s, lr)", "step is f32[], want i32[]"},
		{"x f32[2], lr f32[], s i32[]", "adamw(x, x, x, x, lr, s, lr) b1=1", "b1=1, want a number from 0 to below 1"},
		{"x f32[2]", "adamw(x)", "1 arguments, want 7"},
	} {
		_, err := gomoe.Parse("values", "program p("+c.in+") {\n r = "+c.body+"\n return r\n}")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %s: error is %v, want one with %q", c.body, c.in, err, c.want)
		}
	}
}

func TestWithoutDerivative(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"program p(p f32[2], lr f32[], step i32[]) {\n a, b, c = adamw(p, p, p, p, lr, step, lr) eps=1e-08\n return a, b, c\n}", "an optimizer's update has no derivative"},
		{"program p(q f32[1,1,1,32], k q8_0[1,2,1,32]) {\n out, lse = attention(q, k, k)\n return out, lse\n}", "keys and values of q8_0 have no derivative; convert them with convert_element_type"},
	} {
		p, err := gomoe.Parse("values", c.src)
		require.NoError(t, err)
		for range 2 {
			if err == nil {
				p, err = vjp.Pullback(p)
			}
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "values:") {
			t.Errorf("error is %v, want one with the source line and %q", err, c.want)
		}
	}
}
