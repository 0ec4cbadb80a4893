package primitives_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/vjp"
)

// jsonFloat is a float that may be "nan", "inf" or "-inf" in JSON.
type jsonFloat float64

func (n *jsonFloat) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case `"nan"`:
		*n = jsonFloat(math.NaN())
	case `"inf"`:
		*n = jsonFloat(math.Inf(1))
	case `"-inf"`:
		*n = jsonFloat(math.Inf(-1))
	default:
		return json.Unmarshal(b, (*float64)(n))
	}
	return nil
}

func fixture(t *testing.T, typ graph.Type, x []jsonFloat) array.Array {
	t.Helper()
	f := make([]float64, len(x))
	for i := range x {
		f[i] = float64(x[i])
	}
	a := array.New(typ)
	require.NoError(t, a.SetFloat64s(f))
	return a
}

// Values and derivatives are those of JAX, made by testdata/jax_composed.py, up
// to 2e-6 of the largest element: JAX sums in f32, in another order.
func TestComposedAsInJAX(t *testing.T) {
	const tolerance = 2e-6
	var cases []struct {
		Name, Src string
		In        map[string][]jsonFloat
		Out       [][]jsonFloat
		CT, Grad  [][]jsonFloat
	}
	b, err := os.ReadFile("testdata/jax_composed.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &cases))
	require.NotEmpty(t, cases)
	ctx := context.Background()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			p, err := gomoe.Parse("jax", c.Src)
			require.NoError(t, err)
			in := map[string]array.Array{}
			for _, v := range p.In {
				in[v.Name] = fixture(t, v.Type, c.In[v.Name])
			}
			got, err := gomoe.Run(ctx, p, gomoe.Config{}, in)
			require.NoError(t, err)
			for i, want := range c.Out {
				nearJAX(t, fmt.Sprintf("result %d", i), got[i], want, tolerance)
			}
			if c.CT == nil {
				return
			}
			pull, err := vjp.Pullback(p)
			require.NoError(t, err)
			for i, v := range pull.In[len(p.In):] {
				in[v.Name] = fixture(t, v.Type, c.CT[i])
			}
			grads, err := gomoe.Run(ctx, pull, gomoe.Config{}, in)
			require.NoError(t, err)
			require.Len(t, grads, len(c.Grad))
			for i, want := range c.Grad {
				nearJAX(t, fmt.Sprintf("cotangent %d", i), grads[i], want, tolerance)
			}
		})
	}
}

func nearJAX(t *testing.T, what string, got array.Array, want []jsonFloat, tolerance float64) {
	t.Helper()
	x := got.Float64s()
	require.Len(t, x, len(want), what)
	scale := 1.0
	for _, w := range want {
		if f := math.Abs(float64(w)); f <= math.MaxFloat32 {
			scale = max(scale, f)
		}
	}
	for i, w := range want {
		w := float64(w)
		same := x[i] == w || math.IsNaN(w) && math.IsNaN(x[i])
		if !same && !(math.Abs(x[i]-w) <= tolerance*scale) {
			t.Errorf("%s: element %d is %v, JAX has %v", what, i, x[i], w)
		}
	}
}
