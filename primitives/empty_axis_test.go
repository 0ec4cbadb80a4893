package primitives_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/vjp"
)

// What works along an axis works along one without elements, however many elements lie
// behind it or before it, and so does its derivative. Reductions of nothing have the
// values that jax.numpy gives them.
func TestEmptyAxis(t *testing.T) {
	for _, shape := range []string{"0", "0,16", "0,17", "0,40", "3,0,17", "2,0,5,7", "3,0"} {
		dims := strings.Split(shape, ",")
		axis := 0
		for dims[axis] != "0" {
			axis++
		}
		for _, c := range []struct {
			op   string
			fill float64 // of the result of a reduction
		}{
			{"softmax(x) axis=%d", 0}, {"log_softmax(x) axis=%d", 0}, {"logsumexp(x) axis=%d", math.Inf(-1)},
			{"reduce_sum(x) axes=[%d]", 0}, {"reduce_prod(x) axes=[%d]", 1}, {"reduce_max(x) axes=[%d]", math.Inf(-1)}, {"reduce_min(x) axes=[%d]", math.Inf(1)},
			{"cumsum(x) axis=%d", 0}, {"rev(x) dimensions=[%d]", 0},
		} {
			for _, d := range []string{"f32", "f64", "bf16"} {
				body := fmt.Sprintf(c.op, axis)
				p, err := gomoe.Parse("empty.graph", fmt.Sprintf("program p(x %s[%s]) {\n y = %s\n return y\n}", d, shape, body))
				require.NoError(t, err)
				in := map[string]array.Array{"x": array.New(p.In[0].Type)}
				out, err := gomoe.Run(t.Context(), p, gomoe.Config{}, in)
				if err != nil {
					t.Errorf("%s of %s[%s]: %v", body, d, shape, err)
					continue
				}
				for i, y := range out[0].Float64s() {
					if y != c.fill {
						t.Errorf("%s of %s[%s]: element %d is %v, want %v", body, d, shape, i, y, c.fill)
						break
					}
				}
				g, err := vjp.Grad(summed(t, body, d, shape), "x")
				require.NoError(t, err)
				if _, err := gomoe.Run(t.Context(), g, gomoe.Config{}, in); err != nil {
					t.Errorf("the derivative of %s of %s[%s]: %v", body, d, shape, err)
				}
			}
		}
	}
}

// summed is the program adding up the squares of body's result for x.
func summed(t *testing.T, body, d, shape string) *graph.Program {
	t.Helper()
	head := fmt.Sprintf("program p(x %s[%s]) {\n y = %s\n", d, shape, body)
	p, err := gomoe.Parse("empty.graph", head+" return y\n}")
	require.NoError(t, err)
	var axes []string
	for i := range p.Out[0].Type.Shape {
		axes = append(axes, fmt.Sprint(i))
	}
	p, err = gomoe.Parse("empty.graph", head+fmt.Sprintf(" z = mul(y, y)\n s = reduce_sum(z) axes=[%s]\n return s\n}", strings.Join(axes, ",")))
	require.NoError(t, err)
	return p
}
