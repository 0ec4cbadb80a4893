package gomoe_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/sharding"
)

// TestJoinedSumsUneven sums over b, beside each other, arrays of one number of elements on
// every rank and one whose 7 rows are split over a. Sums of the first kind are joined. The
// other one is not: on the ranks with fewer rows it would not reach to the next one.
func TestJoinedSumsUneven(t *testing.T) {
	p, err := gomoe.Parse("sums.graph", `program sums(x f32[7,6], w f32[6,3], u f32[5,6], v f32[2,6]) {
	s f32[5,3] = dot_general(u, w) lhs_contract=[1] rhs_contract=[0]
	y f32[7,3] = dot_general(x, w) lhs_contract=[1] rhs_contract=[0]
	r f32[2,3] = dot_general(v, w) lhs_contract=[1] rhs_contract=[0]
	return s, y, r
}`)
	require.NoError(t, err)
	m, err := sharding.ParseMesh("a=2,b=2")
	require.NoError(t, err)
	in := map[string]array.Array{}
	for _, v := range p.In {
		a := array.New(v.Type)
		for i := range array.Data[float32](a) {
			array.Data[float32](a)[i] = float32((i*5)%11 - 4)
		}
		in[v.Name] = a
	}
	want, err := gomoe.Run(context.Background(), p, gomoe.Config{}, in)
	require.NoError(t, err)
	for _, c := range []struct {
		x    sharding.Spec
		sums []int // how many arrays each sum has
	}{
		{sharding.Split("", "b"), []int{3}},
		{sharding.Split("a", "b"), []int{1, 2}},
	} {
		cfg := gomoe.Config{Mesh: m, Check: true, Place: map[string]sharding.Spec{"x": c.x, "w": sharding.Split("b"), "u": sharding.Split("", "b"), "v": sharding.Split("", "b")}}
		plan, err := gomoe.Compile(t.Context(), p, cfg)
		require.NoError(t, err)
		var sums []int
		for i := range plan.Instrs {
			if in := &plan.Instrs[i]; in.Name() == "all_sum" {
				sums = append(sums, len(in.In))
			}
		}
		require.Equal(t, c.sums, sums, "%s", plan)
		got, err := gomoe.Run(context.Background(), p, cfg, in)
		require.NoError(t, err)
		for i := range want { // small integers, whose sums are exact in any order
			if !array.Equal(got[i], want[i]) {
				t.Errorf("x at %s: result %d is %v, want %v", c.x.Format(p.In[0].Type), i, got[i], want[i])
			}
		}
	}
}
