package gomoe_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

// Moving a value between placements changes no element: shards of shards are cut as the whole dimension is, whatever sizes happen to be
// those of a mesh's blocks or ranges.
func TestShardsOfShards(t *testing.T) {
	places := []sharding.Spec{{}, sharding.Split("dp"), sharding.Split("ep"), sharding.Split("dp.ep"), sharding.Split("ep.dp"), sharding.Split("", "ep"), sharding.Split("dp", "ep"), sharding.Split("", "dp.ep"), sharding.Split("ep:even"), sharding.Split("dp.ep:even", ""), sharding.Split("dp", "ep:even")}
	for _, axes := range []string{"dp=2,ep=3", "dp=3,ep=2", "dp=2,ep=8:3/5", "dp=2,ep=4:2/1/1", "dp=2,ep=4:3/1", "dp=2,ep=2:2/0"} {
		for _, blocks := range []string{"", " blocks=8"} {
			m, err := sharding.ParseMesh(axes + blocks)
			require.NoError(t, err)
			for _, n := range []int{2, 4, 6, 8, 12, 16, 24} {
				x := array.New(graph.T(graph.F64, n, n))
				for i := range array.Data[float64](x) {
					array.Data[float64](x)[i] = float64(i)
				}
				for _, from := range places {
					for _, to := range places {
						p, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
							var dims []string
							for _, axes := range to.Dims {
								dims = append(dims, strings.Join(axes, "."))
							}
							return []*graph.Value{primitives.ShardingConstraint(tr.Input("x", graph.F64, n, n), dims...)}
						})
						require.NoError(t, err)
						got, err := gomoe.Run(t.Context(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": from}}, map[string]array.Array{"x": x})
						what := fmt.Sprintf("%d on %s: %s to %s", n, m, from, to)
						require.NoError(t, err, what)
						require.Equal(t, array.Data[float64](x), array.Data[float64](got[0]), what)
					}
				}
			}
		}
	}
}
