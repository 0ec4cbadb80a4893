package metal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/metal"
)

// There is a barrier where an instruction uses what one since the last barrier has written, or
// writes what it used, and nowhere else. Debug groups are for Metal's debugger only.
func TestBarriers(t *testing.T) {
	for _, c := range []struct {
		name, body           string
		dispatches, barriers int64
	}{
		{"beside each other", "a = transpose(x) permutation=[1,0]\nb = cumsum(x) axis=1\nc = softmax(x) axis=1", 3, 0},
		{"behind each other", "a = transpose(x) permutation=[1,0]\nb = cumsum(a) axis=1\nc = softmax(b) axis=1", 3, 2},
		{"two and one", "a = transpose(x) permutation=[1,0]\nb = cumsum(x) axis=1\nc = dot_general(a, b) lhs_contract=[1] rhs_contract=[0]", 3, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := gomoe.Parse("p", "program p(x f32[8,8]) {\n"+c.body+"\nreturn a, b, c\n}")
			require.NoError(t, err)
			in := map[string]array.Array{"x": random(3, 8, 8)}
			want, err := gomoe.Run(t.Context(), p, gomoe.Config{}, in)
			require.NoError(t, err)
			for _, capture := range []bool{false, true} {
				if capture {
					t.Setenv("MTL_CAPTURE_ENABLED", "1")
				}
				for _, o := range []metal.Emulation{{}, {Order: metal.Reverse}} {
					cfg := gomoe.Config{}
					d := emulated(t, o)
					cfg.Device = d
					got, err := gomoe.Run(t.Context(), p, cfg, in)
					require.NoError(t, err)
					for i := range want {
						near(t, c.name, got[i], want[i])
					}
					done, ok := d.Counts()
					require.True(t, ok)
					require.Equal(t, []int64{c.dispatches, c.barriers, 1, 1}, []int64{done.Dispatches, done.Barriers, done.Commits, done.Waits})
					require.Equal(t, capture, done.DebugGroups > 0)
				}
			}
		})
	}
}
