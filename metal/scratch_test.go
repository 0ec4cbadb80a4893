package metal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/metal"
)

// Instructions share scratch memory in turn, which has room for the one that takes the most,
// wherever that is in the plan; the pieces of one instruction do not overlap.
func TestScratch(t *testing.T) {
	const most = 3000
	p, err := gomoe.Parse("scratch", `program p(rows f32[40,2], ids i32[40], small f32[3,2], small_ids i32[3]) {
	a = embedding_grad(small_ids, small) num=5
	b = embedding_grad(ids, rows) num=3000
	c = embedding_grad(small_ids, small) num=5
	return a, b, c
}`)
	require.NoError(t, err)
	ids, small := make([]int32, 40), []int32{4, 1, 4}
	for i := range ids {
		ids[i] = int32(i * 97 % most / 4 * 4)
	}
	in := map[string]array.Array{"rows": random(1, 40, 2), "small": random(2, 3, 2)}
	in["ids"], err = array.Of(ids, 40)
	require.NoError(t, err)
	in["small_ids"], err = array.Of(small, 3)
	require.NoError(t, err)
	want, err := gomoe.Run(t.Context(), p, gomoe.Config{}, in)
	require.NoError(t, err)
	cfg := gomoe.Config{}
	cfg.Device = emulated(t, metal.Emulation{})
	got, err := gomoe.Run(t.Context(), p, cfg, in)
	require.NoError(t, err)
	for i := range want {
		require.Equal(t, array.Data[float32](want[i]), array.Data[float32](got[i]), "result %d", i)
	}
}
