package gomoe_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// On every mesh, Options.Finite blames what it blames on one rank: nobody, if a NaN or an
// infinity comes from an input, whichever rank has it, and otherwise the operation that
// makes the first one, though rows travel as bytes.
func TestFiniteOnMeshes(t *testing.T) {
	src, err := os.ReadFile("cmd/gomoe/testdata/moe.graph")
	require.NoError(t, err)
	p, err := gomoe.Parse("moe.graph", string(src))
	require.NoError(t, err)
	grad, err := vjp.Grad(p, "x", "up", "down")
	require.NoError(t, err)
	for _, c := range []struct {
		input string
		at    int // -1 for all elements
		value float64
		blame string // the operation, "" for none
	}{
		{"x", 0, 0.5, ""},
		{"up", 0, math.NaN(), ""},
		{"up", 127, math.Inf(1), ""},
		{"down", 64, math.NaN(), ""},
		{"target", 31, math.NaN(), ""},
		{"target", 0, math.Inf(-1), ""},
		{"up", 70, 3e38, "mul"},
		{"up", -1, 3e38, "grouped_matmul"},
		{"target", 17, 3e38, "mul"},
	} {
		for _, mesh := range []string{"", "ep=2", "ep=4", "dp=2", "dp=2,ep=2", "ep=3", "ep=0/1-3"} {
			for _, program := range []*graph.Program{p, grad} {
				for _, optimize := range []gomoe.Switch{gomoe.On, gomoe.Off} {
					m, err := sharding.ParseMesh(mesh)
					require.NoError(t, err)
					var axes []string
					for _, a := range m.Axes {
						axes = append(axes, a.Name)
					}
					cfg := gomoe.Config{Mesh: m, Optimize: optimize, Options: runtime.Options{Finite: true}, Place: map[string]sharding.Spec{"x": {Dims: [][]string{axes}}, "target": {Dims: [][]string{axes}}}}
					in := map[string]array.Array{}
					for _, v := range program.In {
						in[v.Name] = array.New(v.Type)
						for i := range array.Data[float32](in[v.Name]) {
							array.Data[float32](in[v.Name])[i] = float32((i*7+3*len(v.Name))%11)/8 - 0.5
						}
					}
					if c.at >= 0 {
						array.Data[float32](in[c.input])[c.at] = float32(c.value)
					} else {
						in[c.input].Fill(c.value)
					}
					_, err = gomoe.Run(t.Context(), program, cfg, in)
					what := fmt.Sprintf("%s[%d] = %v on mesh %q, optimize %v, %s", c.input, c.at, c.value, mesh, optimize, program.Name)
					var nf *runtime.NotFiniteError
					switch {
					case c.blame == "" && err != nil:
						t.Errorf("%s: %v, want no blame", what, err)
					case c.blame != "" && (!errors.As(err, &nf) || !strings.Contains(err.Error(), ": "+c.blame)):
						t.Errorf("%s: %v, want %s to be blamed", what, err, c.blame)
					}
				}
			}
		}
	}
}
