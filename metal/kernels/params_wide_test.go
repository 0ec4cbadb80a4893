package kernels_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/metal/kernels"
)

// Instructions with numbers that no parameter holds are left to the host.
func TestWideParams(t *testing.T) {
	for _, c := range []struct{ in, eq string }{
		{"table f32[3000000000,0], ids i32[2]", "y = embedding(table, ids)"},
		{"x f32[3000000000,0]", "y = softmax(x) axis=1"},
		{"x f32[3000000000,0], g f32[0]", "y = rms_norm(x, g)"},
		{"x f32[0,3000000000], y f32[3000000000,0]", "z = dot_general(x, y) lhs_contract=[1] rhs_contract=[0]"},
		{"x f32[0,3000000000]", "y = reduce_sum(x) axes=[0]"},
	} {
		p, err := gomoe.Parse("p", "program p("+c.in+") {\n "+c.eq+"\n return "+c.eq[:1]+"\n}")
		require.NoError(t, err)
		plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Target: kernels.Metal{}, Optimize: gomoe.Off})
		require.NoError(t, err)
		for i := range plan.Instrs {
			_, _, err := kernels.Build(kernels.Of(plan, i, 0))
			var refusal *kernels.RefusalError
			if err != nil && !errors.As(err, &refusal) {
				t.Errorf("%s: %v, want a program or a refusal", c.eq, err)
			}
		}
	}
}
