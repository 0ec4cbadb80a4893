package primitives_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
)

// BenchmarkScaledMatMul multiplies some rows with 8-bit weights, with weights of 4 bits in
// words and, to compare, with the same weights decoded to f32.
func BenchmarkScaledMatMul(b *testing.B) {
	const n, k = 2048, 7168
	for _, m := range []int{1, 8, 128} {
		for _, kind := range []string{
			"w f8_e4m3[%d,%d], s f32[16,56]) {\n y = scaled_matmul(x, w, s) transpose=true",
			"w u32[%d,%d], s f32[2048,112], b f32[2048,112]) {\n y = affine_matmul(x, w, s, b) transpose=true bits=4 group_size=64",
			"w f32[%d,%d]) {\n y = dot_general(x, w) lhs_contract=[1] rhs_contract=[1]",
		} {
			columns := k
			if strings.HasPrefix(kind, "w u32") {
				columns = k / 8
			}
			p, err := gomoe.Parse("p", fmt.Sprintf("program p(x f32[%d,%d], "+kind+"\n return y\n}", m, k, n, columns))
			require.NoError(b, err)
			in := map[string]array.Array{}
			for _, v := range p.In {
				a := array.New(v.Type)
				a.Fill(0.5)
				in[v.Name] = a
			}
			j, err := gomoe.Open(b.Context(), p, gomoe.Config{})
			require.NoError(b, err)
			b.Run(fmt.Sprintf("%d rows, %s", m, p.In[1].Type.DType), func(b *testing.B) {
				b.SetBytes(p.In[1].Type.Bytes())
				for range b.N {
					_, err := j.Step(context.Background(), in)
					require.NoError(b, err)
				}
			})
			j.Close()
		}
	}
}
