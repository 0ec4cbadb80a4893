package kernels_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/metal/metaltest"
	"github.com/gomoe/gomoe/sharding"
)

// program is a program that is being written: equations, whose results are all returned.
type program struct {
	in, body, out []string
	place         map[string]string
	mesh          string
	fill          func(name string, x array.Array, r *rand.Rand) // nil is numbers around 0
	options       metaltest.Options
}

// input adds an input, such as f32[2,3].
func (p *program) input(name, typ string) { p.in = append(p.in, name+" "+typ) }

// eq adds an equation, with fmt.Sprintf, and returns the name of its result.
func (p *program) eq(format string, args ...any) string {
	v := fmt.Sprintf("r%d", len(p.body))
	p.body = append(p.body, v+" = "+fmt.Sprintf(format, args...))
	p.out = append(p.out, v)
	return v
}

func (p *program) String() string {
	return "program p(" + strings.Join(p.in, ", ") + ") {\n " + strings.Join(p.body, "\n ") + "\n return " + strings.Join(p.out, ", ") + "\n}"
}

// config is how the program is placed. Without optimisation each equation is one instruction.
func (p *program) config(t *testing.T, optimize bool) gomoe.Config {
	t.Helper()
	var err error
	cfg := gomoe.Config{Optimize: gomoe.SwitchTo(optimize), Place: map[string]sharding.Spec{}, Target: kernels.Metal{}}
	if p.mesh != "" {
		cfg.Mesh, err = sharding.ParseMesh(p.mesh)
		require.NoError(t, err)
	}
	for _, name := range slices.Sorted(maps.Keys(p.place)) {
		cfg.Place[name], err = sharding.ParseSpec(p.place[name])
		require.NoError(t, err)
	}
	return cfg
}

// plan compiles the program for Metal.
func (p *program) plan(t *testing.T, optimize bool) *lowering.Plan {
	t.Helper()
	q, err := gomoe.Parse("p", p.String())
	require.NoError(t, err, p.String())
	l, err := gomoe.Compile(t.Context(), q, p.config(t, optimize))
	require.NoError(t, err)
	return l
}

// check compares every instruction.
func (p *program) check(t *testing.T, optimize bool) {
	t.Helper()
	q, err := gomoe.Parse("p", p.String())
	require.NoError(t, err, p.String())
	cfg := p.config(t, optimize)
	r := rand.New(rand.NewPCG(1, 2))
	in := map[string]array.Array{}
	for _, v := range q.In {
		x := array.New(v.Type)
		around0(v.Name, x, r)
		if p.fill != nil {
			p.fill(v.Name, x, r)
		}
		in[v.Name] = x
	}
	metaltest.Check(t, q, cfg, in, p.options)
}

// around0 sets floats to numbers around 0 and others to some from 0 up.
func around0(_ string, x array.Array, r *rand.Rand) {
	f := make([]float64, x.Type.Len())
	for i := range f {
		switch {
		case x.Type.DType.IsFloat():
			f[i] = 2 * r.NormFloat64()
		case x.Type.DType == graph.Bool:
			f[i] = float64(r.IntN(2))
		default:
			f[i] = float64(r.IntN(20))
		}
	}
	if err := x.SetFloat64s(f); err != nil {
		panic(err)
	}
}

// below sets integers to some below n.
func below(n int) func(string, array.Array, *rand.Rand) {
	return func(_ string, x array.Array, r *rand.Rand) {
		if x.Type.DType != graph.I32 {
			return
		}
		for i := range array.Data[int32](x) {
			array.Data[int32](x)[i] = int32(r.IntN(n))
		}
	}
}

// specialSize is the size of arguments x and y of which special makes every pair of numbers.
const specialSize = "[901]"

// special sets elements to numbers at which functions go wrong: of x, of y for each of
// those, and of others by chance.
func special(name string, x array.Array, r *rand.Rand) {
	list := []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), 0.5, 1.5, 2.5, -0.5, -1.5, -2.5,
		1e30, -1e30, 3, 7, 16777217, 2147483647, -2147483648, 4294967295, 255, 256, -3, 0.49999997, 5e9, 65504, 65520, 70000}
	if !x.Type.DType.IsFloat() {
		list = []float64{0, 1, 2, 3, 255, 7, 2147483647, -2147483648, -1, -7, 16777217, 2147483521, 65520, 65519, 33554433, 4294967295, 1077936129, -1077936129, 2155872257}
	}
	f := make([]float64, x.Type.Len())
	for i := range f {
		switch name {
		case "x":
			f[i] = list[i%len(list)]
		case "y":
			f[i] = list[i/len(list)%len(list)]
		default:
			f[i] = list[r.IntN(len(list))]
		}
		if x.Type.DType == graph.U32 || x.Type.DType == graph.U8 {
			f[i] = math.Abs(f[i])
		}
	}
	if err := x.SetFloat64s(f); err != nil {
		panic(err)
	}
}
