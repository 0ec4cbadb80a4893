package primitives_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

var (
	nan  = math.NaN()
	inf  = math.Inf(1)
	zero = math.Copysign(0, -1) // -0
)

// evaluate runs the body of a program of x, of type typ, that returns y, on
// one rank. Elements are printed, so that -0 shows.
func evaluate(t *testing.T, typ, body string, x ...float64) []string {
	t.Helper()
	p, err := gomoe.Parse("test", "program p(x "+typ+") {\n "+body+"\n}")
	require.NoError(t, err)
	out, err := gomoe.Run(context.Background(), p, gomoe.Config{}, map[string]array.Array{"x": of(p.In[0].Type, x)})
	require.NoError(t, err)
	var text []string
	for _, o := range out {
		text = append(text, fmt.Sprint(o.Float64s()))
	}
	return text
}

// TestReduceValues compares the family with the results of jax.lax.
func TestReduceValues(t *testing.T) {
	odd := []float64{0, zero, nan, 1, zero, 0, math.Copysign(nan, -1), -inf, inf, nan}
	for _, c := range []struct {
		typ, body string
		x         []float64
		want      []string
	}{
		{"f32[10]", "y, i = sort(x)\n return y, i", odd, []string{"[-Inf 0 -0 -0 0 1 +Inf NaN NaN NaN]", "[7 0 1 4 5 3 8 2 6 9]"}},
		{"bf16[10]", "y, i = sort(x)\n return y, i", odd, []string{"[-Inf 0 -0 -0 0 1 +Inf NaN NaN NaN]", "[7 0 1 4 5 3 8 2 6 9]"}},
		{"i32[4]", "y, i = sort(x)\n return y, i", []float64{3, -1, 3, -2}, []string{"[-2 -1 3 3]", "[3 1 0 2]"}},
		{"i64[4]", "y, i = sort(x)\n return y, i", []float64{3, -1, 3, -2}, []string{"[-2 -1 3 3]", "[3 1 0 2]"}},
		{"u32[3]", "y, i = sort(x)\n return y, i", []float64{4294967295, 0, 1}, []string{"[0 1 4.294967295e+09]", "[1 2 0]"}},
		{"bool[3]", "y, i = sort(x)\n return y, i", []float64{1, 0, 1}, []string{"[0 1 1]", "[1 0 2]"}},
		{"f32[3,2]", "y, i = sort(x)\n return y, i", []float64{3, 1, 2, 2, 1, 3}, []string{"[1 1 2 2 3 3]", "[2 0 1 1 0 2]"}},
		// A NaN of either sign is the largest. For JAX, a NaN with a sign, such as 0/0
		// gives on x86, is the smallest.
		{"f32[10]", "y, i = top_k(x) k=10\n return y, i", odd, []string{"[NaN NaN NaN +Inf 1 0 0 -0 -0 -Inf]", "[2 6 9 8 3 0 5 1 4 7]"}},
		{"f16[4]", "y, i = top_k(x) k=4\n return y, i", []float64{zero, 0, zero, 0}, []string{"[0 0 -0 -0]", "[1 3 0 2]"}},
		{"i32[4]", "y, i = top_k(x) k=3\n return y, i", []float64{3, 1, 3, 2}, []string{"[3 3 2]", "[0 2 3]"}},
		{"f32[10]", "i = argmax(x)\n j = argmin(x)\n return i, j", odd, []string{"2", "2"}},
		{"f32[3]", "i = argmax(x)\n j = argmin(x)\n return i, j", []float64{zero, 0, zero}, []string{"0", "0"}},
		{"i64[4]", "i = argmax(x)\n j = argmin(x)\n return i, j", []float64{1, 7, 7, 1}, []string{"1", "0"}},
		{"i64[2]", "i = argmin(x)\n return i", []float64{1 << 63, 5}, []string{"1"}}, // the largest integer is no NaN
		{"bool[3]", "i = argmax(x)\n j = argmin(x)\n return i, j", []float64{0, 1, 1}, []string{"1", "0"}},
		{"f32[2]", "y = reduce_max(x) axes=[0]\n z = reduce_min(x) axes=[0]\n return y, z", []float64{0, zero}, []string{"0", "-0"}},
		{"f32[2]", "y = reduce_max(x) axes=[0]\n z = reduce_min(x) axes=[0]\n return y, z", []float64{zero, 0}, []string{"0", "-0"}},
		{"bf16[3]", "y = reduce_max(x) axes=[0]\n z = reduce_min(x) axes=[0]\n return y, z", []float64{1, nan, 2}, []string{"NaN", "NaN"}},
		{"f32[0]", "y = reduce_max(x) axes=[0]\n z = reduce_min(x) axes=[0]\n w = reduce_prod(x) axes=[0]\n s = reduce_sum(x) axes=[0]\n return y, z, w, s", nil, []string{"-Inf", "+Inf", "1", "0"}},
		{"i32[0]", "y = reduce_max(x) axes=[0]\n z = reduce_min(x) axes=[0]\n return y, z", nil, []string{"-2147483648", "2147483647"}},
		{"bool[2,2]", "y = reduce_max(x) axes=[0]\n z = reduce_min(x) axes=[0]\n return y, z", []float64{0, 1, 1, 1}, []string{"[1 1]", "[0 1]"}},
		{"u8[3]", "y = reduce_sum(x) axes=[0]\n z = reduce_prod(x) axes=[0]\n w = cumsum(x)\n return y, z, w", []float64{200, 100, 3}, []string{"47", "96", "[200 44 47]"}},
		{"f32[3]", "y = cumsum(x)\n z = cumsum(x) reverse=true\n return y, z", []float64{1, 2, 4}, []string{"[1 3 7]", "[7 6 4]"}},
		{"f32[3]", "y = cumsum(x)\n return y", []float64{16777216, 1, 1}, []string{"[1.6777216e+07 1.6777216e+07 1.6777218e+07]"}},
		{"f32[3]", "y = reduce_sum(x) axes=[0]\n return y", []float64{16777216, 1, 1}, []string{"1.6777218e+07"}},
		{"f32[2]", "y = reduce_sum(x)\n z = reduce_max(x)\n return y, z", []float64{1, nan}, []string{"[1 NaN]", "[1 NaN]"}},
	} {
		got := evaluate(t, c.typ, c.body, c.x...)
		for i, w := range c.want {
			if w[0] != '[' {
				w = "[" + w + "]"
			}
			if i >= len(got) || got[i] != normal(w) {
				t.Errorf("%s of x %s = %v: result %d is %v, want %s", c.body, c.typ, c.x, i, got, w)
			}
		}
	}
}

// normal returns a list of numbers as fmt prints it.
func normal(s string) string {
	switch s {
	case "[-2147483648]":
		return "[-2.147483648e+09]"
	case "[2147483647]":
		return "[2.147483647e+09]"
	}
	return s
}

// TestTopKManyEqualsSort compares both ways of top_k with a sort, with many ties.
func TestTopKManyEqualsSort(t *testing.T) {
	x := make([]float64, 300)
	for i := range x {
		x[i] = float64(i * 7919 % 97)
	}
	neg := make([]float64, len(x))
	for i, v := range x {
		neg[i] = -v
	}
	for _, k := range []int{1, 63, 64, 65, 300} {
		got := evaluate(t, "f32[300]", fmt.Sprintf("y, i = top_k(x) k=%d\n return i", k), x...)
		want := evaluate(t, "f32[300]", fmt.Sprintf("y, i = sort(x)\n z = slice(i) start_indices=[0] limit_indices=[%d]\n return z", k), neg...)
		if got[0] != want[0] {
			t.Errorf("top_k of k=%d takes %s, a sort %s", k, got[0], want[0])
		}
	}
}

// TestReduceGradients compares derivatives at ties and zeros with JAX's.
func TestReduceGradients(t *testing.T) {
	for _, c := range []struct {
		body string
		x    []float64
		want string
	}{
		{"y = reduce_max(x) axes=[0]", []float64{1, 2, 2, 0}, "[0 0.5 0.5 0]"},
		{"y = reduce_min(x) axes=[0]", []float64{0, 2, 0, zero}, "[0.3333333432674408 0 0.3333333432674408 0.3333333432674408]"},
		{"y = reduce_prod(x) axes=[0]", []float64{0, 2, 3, 4}, "[24 0 0 0]"},
		{"y = reduce_prod(x) axes=[0]", []float64{0, 0, 3, 4}, "[0 0 0 0]"},
		{"y, i = top_k(x) k=1\n y = reshape(y)", []float64{5, 2, 5, 5}, "[1 0 0 0]"},
	} {
		src := "program p(x f32[4]) {\n " + c.body + "\n return y\n}"
		if c.body[:4] == "y, i" {
			src = "program p(x f32[4]) {\n z, i = top_k(x) k=1\n y = reshape(z)\n return y\n}"
		}
		p, err := gomoe.Parse("test", src)
		require.NoError(t, err)
		g, err := vjp.Grad(p)
		require.NoError(t, err)
		out, err := gomoe.Run(context.Background(), g, gomoe.Config{}, map[string]array.Array{"x": of(p.In[0].Type, c.x)})
		require.NoError(t, err)
		if got := fmt.Sprint(out[len(out)-1].Float64s()); got != c.want {
			t.Errorf("gradient of %s at %v is %s, want %s", c.body, c.x, got, c.want)
		}
	}
}

// TestReduceSameBits compares sums and products of f32 and bf16, whose last bits
// depend on the order, on every split of a 2-D mesh, with one rank.
func TestReduceSameBits(t *testing.T) {
	mesh, err := sharding.ParseMesh("a=2,b=2")
	require.NoError(t, err)
	for _, op := range []string{"reduce_sum", "reduce_prod", "reduce_max"} {
		for _, d := range []string{"f32", "bf16", "f16"} {
			for _, axes := range []string{"[0]", "[1]", "[2]", "[0,1]", "[0,2]", "[1,2]", "[0,1,2]"} {
				p, err := gomoe.Parse("test", fmt.Sprintf("program p(x %s[4,8,12]) {\n y = %s(x) axes=%s\n return y\n}", d, op, axes))
				require.NoError(t, err)
				x := make([]float64, 4*8*12)
				for i := range x {
					x[i] = 1 + math.Sin(float64(i*i))/float64(2+i%7)
				}
				in := map[string]array.Array{"x": of(p.In[0].Type, x)}
				want, err := gomoe.Run(context.Background(), p, gomoe.Config{}, in)
				require.NoError(t, err)
				for _, place := range placements(p, mesh) {
					got, err := gomoe.Run(context.Background(), p, gomoe.Config{Mesh: mesh, Place: place}, in)
					require.NoError(t, err)
					if !array.Equal(got[0], want[0]) {
						t.Errorf("%s of %s over %s placed %v is %v, on one rank %v", op, d, axes, place, got[0], want[0])
					}
				}
			}
		}
	}
}

// TestReduceErrors compares the texts of errors.
func TestReduceErrors(t *testing.T) {
	for _, c := range []struct{ args, eqn, want string }{
		{"x f32[2,3]", "reduce_sum(x) axes=[2]", "axis 2 of f32[2,3], want 0 to 1"},
		{"x f32[2,3]", "reduce_max(x) axes=[1,0]", "axes [1 0], want them distinct and ascending"},
		{"x bool[2]", "reduce_sum(x) axes=[0]", "element type bool is not summed; convert with convert_element_type"},
		{"x bool[2]", "reduce_prod(x) axes=[0]", "element type bool is not multiplied"},
		{"x bool[2]", "cumsum(x)", "element type bool is not summed"},
		{"x f32[2]", "cumsum(x) axis=-1", "axis -1 of f32[2], want 0 to 0"},
		{"x f32[0,2]", "argmax(x)", "axis 0 of f32[0,2] is empty, want at least one element"},
		{"x f32[2]", "argmin(x) index_dtype=f32", "index_dtype=f32, want i32, i64, u32 or u8"},
		{"x f32[300]", "argmax(x) index_dtype=u8", "index_dtype=u8 counts to 255 and axis 0 has 300 elements; want i64"},
		{"x f32[]", "argmax(x)", "axis 0 of f32[]"},
		{"x f32[2]", "take_along_axis(x, x)", "indices f32[2], want element type i32"},
		{"x f32[2], i i32[2,1]", "take_along_axis(x, i)", "want as many dimensions"},
		{"x f32[2,2], i i32[1,2]", "take_along_axis(x, i) axis=1", "want the same sizes except along axis 1"},
		{"x f32[2], i i32[3]", "add_along_axis(x, i) size=3", "indices i32[3] for f32[2], want i32[2]"},
		{"x f32[2], i i32[2]", "add_along_axis(x, i) size=-3", "size=-3, want 0 or more"},
		{"x i32[2], i i32[2]", "add_along_axis(x, i) size=3", "element type i32, want f64, f32, bf16 or f16"},
	} {
		_, err := gomoe.Parse("test", "program p("+c.args+") {\n y = "+c.eqn+"\n return y\n}")
		require.ErrorContains(t, err, c.want, c.eqn)
	}
	for _, c := range []struct{ args, eqn, want string }{
		{"x f32[2,3]", "top_k(x) k=4", "k=4 of the last dimension of f32[2,3], want 0 to 3"},
		{"x f32[2,3]", "top_k(x) k=-1", "k=-1 of the last dimension"},
		{"x f32[]", "top_k(x)", "f32[] has 0 dimensions, want at least 1"},
		{"x f32[2]", "sort(x) dimension=1", "dimension: axis 1 of f32[2], want 0 to 0"},
	} {
		_, err := gomoe.Parse("test", "program p("+c.args+") {\n y, i = "+c.eqn+"\n return y\n}")
		require.ErrorContains(t, err, c.want, c.eqn)
	}
}

// TestAlongAxisRange checks that an index outside is an error of the run and
// neither clamped nor wrapped.
func TestAlongAxisRange(t *testing.T) {
	for _, eqn := range []string{"take_along_axis(x, i)", "add_along_axis(x, i) size=2"} {
		p, err := gomoe.Parse("test", "program p(x f32[2], i i32[2]) {\n y = "+eqn+"\n return y\n}")
		require.NoError(t, err)
		for _, bad := range []float64{-1, 2, 1 << 30} {
			_, err := gomoe.Run(context.Background(), p, gomoe.Config{}, map[string]array.Array{
				"x": of(graph.T(graph.F32, 2), []float64{1, 2}), "i": of(graph.T(graph.I32, 2), []float64{1, bad})})
			require.ErrorContains(t, err, fmt.Sprintf("element 1 of the indices i32[2] is %d, want 0 to 1 for axis 0", int(bad)))
		}
	}
}

// TestReduceRefusesSplit checks the advice in errors where an axis must be whole.
func TestReduceRefusesSplit(t *testing.T) {
	mesh, err := sharding.ParseMesh("a=2")
	require.NoError(t, err)
	for _, eqn := range []string{"y = argmax(x) axis=1", "y = cumsum(x) axis=1", "y, i = sort(x) dimension=1", "y, i = top_k(x) k=1"} {
		p, err := gomoe.Parse("test", "program p(x f32[2,4]) {\n "+eqn+"\n return y\n}")
		require.NoError(t, err)
		_, err = gomoe.Compile(t.Context(), p, gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"x": sharding.Split("", "a")}})
		require.ErrorContains(t, err, "dimension 1 of argument 0 is split over a and must be whole here; gather it with sharding_constraint", eqn)
	}
}

// TestReduceOneNaN checks that the bits of a maximum that is NaN do not depend on which
// of several NaNs was taken, since that differs between meshes.
func TestReduceOneNaN(t *testing.T) {
	a, b := math.Float64frombits(0xfff0000000000123), math.Float64frombits(0x7ff8000000004000)
	for _, op := range []string{"reduce_max", "reduce_min"} {
		for _, typ := range []string{"f64[3]", "f64[3,1]", "f64[3,2]"} {
			p, err := gomoe.Parse("test", "program p(x "+typ+") {\n y = "+op+"(x) axes=[0]\n return y\n}")
			require.NoError(t, err)
			seen := map[uint64]bool{}
			for _, x := range [][]float64{{a, b, 1}, {b, a, 1}, {1, a, 1}, {1, 1, b}, {nan, 1, 1}} {
				full := make([]float64, p.In[0].Type.Len())
				for i := range full {
					full[i] = x[i*3/len(full)]
				}
				out, err := gomoe.Run(context.Background(), p, gomoe.Config{}, map[string]array.Array{"x": of(p.In[0].Type, full)})
				require.NoError(t, err)
				for _, y := range out[0].Float64s() {
					seen[math.Float64bits(y)] = true
				}
			}
			if len(seen) != 1 {
				t.Errorf("%s of %s leaves NaNs with the bits %x, want one", op, typ, slices.Collect(maps.Keys(seen)))
			}
		}
	}
}
