package metal_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/metal"
	"github.com/gomoe/gomoe/sharding"
)

// The GPU gets a segment's dispatches 30 at a time while the host encodes, and the host waits once.
func TestCommits(t *testing.T) {
	for _, c := range []struct{ dispatches, commits int64 }{{1, 1}, {29, 1}, {30, 1}, {31, 2}, {60, 2}, {70, 3}} {
		var b strings.Builder
		b.WriteString("program p(x f32[4,8]) {\n")
		from := "x"
		for i := range c.dispatches {
			fmt.Fprintf(&b, "y%d = softmax(%s) axis=1\n", i, from)
			from = fmt.Sprintf("y%d", i)
		}
		p, err := gomoe.Parse("p", b.String()+"return "+from+"\n}")
		require.NoError(t, err)
		d := emulated(t, metal.Emulation{})
		in := map[string]array.Array{"x": random(3, 4, 8)}
		want, err := gomoe.Run(t.Context(), p, gomoe.Config{}, in)
		require.NoError(t, err)
		cfg := gomoe.Config{}
		cfg.Device = d
		got, err := gomoe.Run(t.Context(), p, cfg, in)
		require.NoError(t, err)
		near(t, from, got[0], want[0])
		done, ok := d.Counts()
		require.True(t, ok)
		require.Equal(t, []int64{c.dispatches, c.commits, 1}, []int64{done.Dispatches, done.Commits, done.Waits})
	}
}

// A rank waits for the GPU once before each collective, which takes what the GPU has written, once for
// the results, and nowhere else.
func TestWaits(t *testing.T) {
	p, err := gomoe.Parse("p", `program p(x f32[8,16]) {
	s = softmax(x) axis=1
	m = reduce_sum(s) axes=[0]
	b = broadcast_in_dim(m) shape=[8,16] dims=[1]
	y = add(x, b)
	z = softmax(y) axis=1
	n = reduce_sum(z) axes=[0]
	e = exp(n)
	return e, z
}`)
	require.NoError(t, err)
	in := map[string]array.Array{"x": random(3, 8, 16)}
	want, err := gomoe.Run(t.Context(), p, gomoe.Config{}, in)
	require.NoError(t, err)
	for _, ranks := range []int64{1, 2, 4} {
		d := emulated(t, metal.Emulation{})
		cfg := gomoe.Config{Place: map[string]sharding.Spec{"x": sharding.Split("dp")}}
		cfg.Mesh, err = sharding.ParseMesh(fmt.Sprintf("dp=%d", ranks))
		require.NoError(t, err)
		cfg.Device = d
		j, err := gomoe.Open(t.Context(), p, cfg)
		require.NoError(t, err)
		collectives := int64(0)
		for i := range j.Plan().Instrs {
			if j.Plan().Instrs[i].Communicates() {
				collectives++
			}
		}
		if ranks > 1 {
			require.Equal(t, int64(2), collectives, "%s", j.Plan())
		}
		for step := range int64(3) {
			before, _ := d.Counts()
			out, err := j.Step(t.Context(), in)
			require.NoError(t, err)
			for i := range want {
				near(t, fmt.Sprintf("result %d", i), out[i], want[i])
			}
			done, _ := d.Counts()
			done = done.Sub(before)
			each := ranks * (collectives + 1)
			require.Equal(t, []int64{each, each}, []int64{done.Waits, done.Commits}, "step %d on %d ranks", step, ranks)
		}
		require.NoError(t, j.Close())
	}
}
