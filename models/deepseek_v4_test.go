package models

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// Layers that choose experts by a table and by scores give transformers' results and gradients, and the same bits on every mesh.
func TestDeepSeekV4Experts(t *testing.T) {
	const name = "testdata/deepseek_v4_experts"
	c, err := checkpoint.Open(name)
	require.NoError(t, err)
	defer c.Close()
	text, err := os.ReadFile(filepath.Join(name, "expected.json"))
	require.NoError(t, err)
	var want struct {
		Tokens    []int32
		X, Y0, Y1 []float32
		DX0, DX1  []float32
	}
	require.NoError(t, json.Unmarshal(text, &want))
	experts, err := DeepSeekV4Experts(c)
	require.NoError(t, err)
	var params []nn.Param
	p, err := graph.Trace("experts", func(tr *graph.Tracer) []*graph.Value {
		s := nn.New(tr, nn.Options{Stored: Stored(c)})
		x, tokens, up := tr.Input("x", graph.F32, 2, 6, 16), tr.Input("tokens", graph.I32, 2, 6), primitives.Iota(tr, graph.I32, 2, 2, 6, 16)
		var out []*graph.Value
		for l := range 2 {
			y := experts(s, l, x, tokens)
			out = append(out, y, vjp.Backward([]*graph.Value{y}, []*graph.Value{primitives.ConvertElementType(up, graph.F32)}, []*graph.Value{x})[0])
		}
		params = s.Params()
		return out
	})
	require.NoError(t, err)
	require.NoError(t, Surplus(c, params))
	var first []array.Array
	for _, mesh := range []string{"", "ep=3", "dp=2,ep=2"} {
		on := meshOf(t, mesh)
		job, err := gomoe.Open(t.Context(), p, gomoe.Config{Mesh: on, Place: nn.Places(params, on)})
		require.NoError(t, err)
		in := put(t, job, c, params)
		x, err := array.Of(want.X, 2, 6, 16)
		require.NoError(t, err)
		tokens, err := array.Of(want.Tokens, 2, 6)
		require.NoError(t, err)
		for name, a := range map[string]array.Array{"x": x, "tokens": tokens} {
			in[name], err = job.Put(name, a)
			require.NoError(t, err)
		}
		out, err := job.Run(context.Background(), in)
		require.NoError(t, err)
		for i, want := range [][]float32{want.Y0, want.DX0, want.Y1, want.DX1} {
			got, err := job.Get(context.Background(), out[i])
			require.NoError(t, err)
			largest, worst := 0.0, 0.0
			for j, y := range want {
				largest = math.Max(largest, math.Abs(float64(y)))
				worst = math.Max(worst, math.Abs(float64(y)-float64(array.Data[float32](got)[j])))
			}
			if len(want) != 192 || !(worst <= 1e-5*largest) {
				t.Errorf("result %d on mesh %q is off by %g of the largest, %g", i, mesh, worst/largest, largest)
			}
			if mesh == "" {
				first = append(first, got)
			} else if !array.Equal(first[i], got) {
				t.Errorf("result %d on mesh %q: the bits are not those of one rank", i, mesh)
			}
		}
		require.NoError(t, job.Close())
	}

	for from, wanted := range map[string]string{`"sqrtsoftplus"`: `scoring_func is "x", want sqrtsoftplus`, `"noaux_tc"`: `topk_method is "x", want noaux_tc`} {
		config := func(s string) string { return strings.Replace(s, from, `"x"`, 1) }
		other, err := checkpoint.Open(changed(t, "deepseek_v4_experts", nil, config))
		require.NoError(t, err)
		defer other.Close()
		if _, err := DeepSeekV4Experts(other); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("error %v\nwant %s", err, wanted)
		}
	}
	if _, err := Open(c); err == nil {
		t.Error("Open knows an architecture of which only the experts are there")
	}
}
