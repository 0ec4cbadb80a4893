package primitives_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/sharding"
)

// TestPendingSums applies each function to a pending sum. A function that is not linear
// must have the sum added first. The elements are small whole numbers, so that every
// order of additions gives the same bits.
func TestPendingSums(t *testing.T) {
	mesh, err := sharding.ParseMesh("a=2")
	require.NoError(t, err)
	for _, body := range []string{
		"r = neg(s)", "r = abs(s)", "r = sign(s)", "r = square(s)", "r = exp(s)", "r = round(s)", "r = is_finite(s)",
		"r = add(s, s)", "r = add(s, y)", "r = sub(y, s)", "r = mul(s, y)", "r = mul(y, s)", "r = mul(s, s)",
		"r = div(s, y)", "r = div(y, s)", "r = div(s, s)", "r = rem(s, y)", "r = pow(y, s)", "r = max(s, s)", "r = max(s, y)", "r = min(s, y)", "r = lt(s, y)",
		"r = select_n(w, s, s)", "r = select_n(w, s, y)", "r = select_n(w, y, s)", "z = full() dtype=f64 shape=[4]\n r = select_n(w, z, s)",
		"one = full() value=1 dtype=f64 shape=[4]\n r = select_n(w, one, s)", "r = select_n(w, s)",
		"r = clamp(y, s, s)", "r = stop_gradient(s)", "b = stop_gradient(s)\n r = square(b)",
		"r = convert_element_type(s) dtype=bf16", "r = convert_element_type(s) dtype=bool", "r = convert_element_type(s) dtype=i32",
		"b = convert_element_type(s) dtype=f32\n r = square(b)", "n = convert_element_type(s) dtype=i32\n m = convert_element_type(y) dtype=i32\n r = div(n, m)",
	} {
		src := "program p(x f64[4,4], y f64[4], w bool[4]) {\n s = reduce_sum(x) axes=[0] unordered=true\n " + body + "\n return r\n}"
		p, err := gomoe.Parse("p", src)
		require.NoError(t, err, body)
		in := map[string]array.Array{
			"x": of(p.Input("x").Type, []float64{1, -2, 3, 1, 4, 1, -5, 2, -3, 2, 7, -1, 1, -3, -2, -1}),
			"y": f64s(3, -2, 5, 2),
			"w": vec(true, false, false, true),
		}
		want, err := gomoe.Run(context.Background(), p, gomoe.Config{}, in)
		require.NoError(t, err, body)
		got, err := gomoe.Run(context.Background(), p, gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"x": sharding.Split("a")}}, in)
		require.NoError(t, err, body)
		identical(t, body, got[0], want[0])
	}
}
