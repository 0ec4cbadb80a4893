package gomoe_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
)

// What a rule does not read is not computed: here nobody uses the rows of a dispatch, so
// nobody needs the tokens.
func TestUnread(t *testing.T) {
	p, err := gomoe.Parse("p.graph", `program p(x f32[3,6], weights f32[3,2], experts i32[3,2]) {
	a f32[3,6] = sin(x)
	tokens f32[3,6] = mul(a, x)
	routing i32[3,2,2], dropped bool[3,2], counts i32[4], padded i32[4], demand i32[4] = ep_prepare(experts) experts=4
	rows f32[6,6], of_rows f32[6] = ep_dispatch(tokens, weights, routing) experts=4
	back f32[6,1] = reshape(of_rows) shape=[6,1]
	out f32[3,1] = ep_combine(back, routing) experts=4
	return out
}
`)
	require.NoError(t, err)
	plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Check: true})
	require.NoError(t, err)
	for i := range plan.Instrs {
		require.NotContains(t, plan.Instrs[i].Name(), "sin", plan)
	}
}
