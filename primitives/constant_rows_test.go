package primitives_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// TestConstantRows takes first and second derivatives of sums over rows in expert order. A
// cotangent is the same constant for every row, and what rearranges it, or rows of a
// dispatched constant, makes rows of the routing.
func TestConstantRows(t *testing.T) {
	m, err := sharding.ParseMesh("a=2,b=2")
	require.NoError(t, err)
	place := map[string]sharding.Spec{"idx": sharding.Split("a"), "x": sharding.Split("a")}
	for _, body := range []string{
		"y = rev(q) dimensions=[1]",
		"y = rev(q) dimensions=[1]\n w = mul(y, y)\n v = rev(w) dimensions=[1]",
		"y = slice(q) start_indices=[0,1] limit_indices=[16,3]",
		"z = full() value=0 dtype=f64\n y = pad(q, z) low=[0,1] high=[0,2] interior=[0,1]",
		"y = concatenate(q, q) dimension=1\n v = rev(y) dimensions=[1]",
		"y = reshape(q) shape=[16,2,2]\n v = transpose(y) permutation=[0,2,1]\n u = rev(v) dimensions=[1]",
		"w = sharding_constraint(q) spec=\"a,b\"\n u = sharding_constraint(w) spec=\"a\"\n y = rev(u) dimensions=[1]",
		"o = iota() dtype=f64 shape=[8,4] dimension=1\n c = ep_dispatch(o, r) experts=4 axis=\"a\"\n d = concatenate(c, q) dimension=1\n y = mul(d, d)",
		"o = full() value=2 dtype=f64 shape=[16,4]\n d = concatenate(o, o) dimension=1\n e = concatenate(q, q) dimension=1\n y = mul(d, e)",
		"o = full() value=2 dtype=f64 shape=[16,4]\n d = concatenate(o, o) dimension=1\n k = slice(d) start_indices=[0,2] limit_indices=[16,6]\n e = mul(k, q)\n y = mul(e, e)",
	} {
		last := body[strings.LastIndex(body, "\n")+1:]
		name := strings.TrimSpace(last[:strings.Index(last, "=")])
		for _, end := range []string{
			"	s = reduce_sum(" + name + ") axes=[0,1] unordered=true\n	return s\n}",
			"	p = tanh(" + name + ")\n	s = reduce_sum(p) axes=[0,1] unordered=true\n	return s\n}",
		} {
			if strings.Contains(body, "transpose") {
				end = strings.Replace(end, "[0,1]", "[0,1,2]", 1)
			}
			p, err := gomoe.Parse("rows", raggedHead+"	"+body+"\n"+end)
			require.NoError(t, err, body)
			for order := range 3 {
				if order > 0 {
					p, err = vjp.Pullback(p)
					require.NoError(t, err, body)
				}
				compareOnMesh(t, p, m, place)
			}
		}
	}
}

// compareOnMesh runs p on one rank and on m, with small whole numbers, so that no sum is
// rounded before functions are.
func compareOnMesh(t *testing.T, p *graph.Program, m sharding.Mesh, place map[string]sharding.Spec) {
	t.Helper()
	rng := rand.New(rand.NewPCG(6, 6))
	in := map[string]array.Array{}
	for _, v := range p.In {
		switch v.Name {
		case "idx":
			in[v.Name] = ints(-1, 4)(rng, v.Type)
		case "i", "j":
			in[v.Name] = ints(0, 2)(rng, v.Type)
		default:
			in[v.Name] = ints(-3, 3)(rng, v.Type)
		}
	}
	want, err := gomoe.Run(context.Background(), p, gomoe.Config{}, in)
	require.NoError(t, err, "%s", p)
	cfg := gomoe.Config{Mesh: m, Place: place, Check: true}
	cfg.Poison = true
	got, err := gomoe.Run(context.Background(), p, cfg, in)
	if err != nil {
		t.Errorf("%v\n%s", err, p)
		return
	}
	for k := range want {
		if d, at := array.MaxDiff(got[k], want[k]); !(d <= 1e-12) {
			t.Errorf("result %d on %s differs by %g at %d\n%s", k, m, d, at, p)
		}
	}
}
