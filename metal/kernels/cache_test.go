package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/metal/metaltest"
)

// Caches of every element type, donated and not, get rows of every type at their sequences'
// positions. Blocks of q8_0 also get zeros, numbers that are not finite, and very small ones.
func TestCacheUpdate(t *testing.T) {
	for _, cache := range []string{"f32", "bf16", "f16", "q8_0"} {
		for _, update := range []string{"f32", "bf16", "f16"} {
			for _, donate := range []bool{false, true} {
				p := &program{}
				p.input("c", cache+"[3,7,2,32]")
				p.fill = func(name string, x array.Array, r *rand.Rand) {
					if name != "x" || cache != "q8_0" {
						return
					}
					f := x.Float64s()
					clear(f[:32])
					f[40], f[70], f[100] = math.NaN(), math.Inf(-1), 1e-9
					require.NoError(t, x.SetFloat64s(f))
				}
				p.input("x", update+"[3,2,2,32]")
				p.integers("at", 5, 0, 3)
				p.body, p.out = []string{"y = cache_update(c, x, at)"}, []string{"y"}
				p.options.Instructions = []string{"cache_update"}
				q, err := gomoe.Parse("p", p.String())
				require.NoError(t, err)
				cfg, in := p.config(t, false), map[string]array.Array{}
				if donate {
					cfg.Donate = map[string]int{"c": 0}
				}
				r := rand.New(rand.NewPCG(1, 2))
				for _, v := range q.In {
					x := array.New(v.Type)
					around0(v.Name, x, r)
					p.fill(v.Name, x, r)
					in[v.Name] = x
				}
				plan, err := gomoe.Compile(t.Context(), q, cfg)
				require.NoError(t, err)
				work, _, err := kernels.Build(kernels.Of(plan, 0, 0))
				require.NoError(t, err)
				require.Equal(t, map[bool]int{false: 3, true: 2}[donate], len(work.Launches), "a donated cache is not copied")
				t.Run(fmt.Sprintf("%s,%s,%v", cache, update, donate), func(t *testing.T) { metaltest.Check(t, q, cfg, in, p.options) })
			}
		}
	}
}

// Whole caches, and updates of no rows, are written too, and a start that does not fit is the
// host's error.
func TestCacheUpdateEdges(t *testing.T) {
	for _, c := range []struct {
		cache, update string
		at            int32
		fails         string
	}{
		{"f32[1,4,8]", "f32[1,4,8]", 0, ""},
		{"f32[1,4,8]", "bf16[1,4,8]", 0, ""},
		{"f32[1,4,8]", "f32[1,0,8]", 4, ""},
		{"f32[1,4,8]", "f32[1,2,8]", 3, "start 3 at [0], want 0 to 2"},
		{"q8_0[1,4,32]", "f32[1,1,32]", -1, "start -1 at [0], want 0 to 3"},
	} {
		p := &program{}
		p.input("c", c.cache)
		p.input("x", c.update)
		p.integers("at", c.at)
		p.body, p.out = []string{"y = cache_update(c, x, at)"}, []string{"y"}
		p.options.Fails = c.fails
		p.check(t, false)
	}
	p, err := gomoe.Parse("p", "program p(c f64[1,4,8], x f32[1,2,8], t i32[1]) {\n y = cache_update(c, x, t)\n return y\n}")
	require.NoError(t, err)
	require.Equal(t, graph.F64, p.Out[0].Type.DType)
	plan, err := gomoe.Compile(t.Context(), p, (&program{}).config(t, false))
	require.NoError(t, err)
	require.Contains(t, plan.Instrs[0].Why, "elements of f64")
}
