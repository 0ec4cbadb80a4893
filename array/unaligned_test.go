package array

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/gomoe/gomoe/graph"
	"github.com/stretchr/testify/require"
)

// An array over memory that begins at any address, as in a mapped file, is read, converted
// and written as one that begins at a multiple of eight.
func TestUnaligned(t *testing.T) {
	for _, d := range append([]graph.DType{graph.F8_E4M3, graph.F8_E5M2, graph.Q8_0, graph.Q4_K}, dtypes...) {
		block, _ := d.Block()
		like := New(graph.T(d, 3, 1+256/block*block))
		if block > 1 {
			like = New(graph.T(d, 3, 256))
		}
		for i := range like.mem {
			like.mem[i] = byte(i * 37 % 61)
			if d == graph.Bool {
				like.mem[i] &= 1
			}
		}
		for offset := 1; offset < 8; offset++ {
			words := New(graph.T(graph.U8, offset+len(like.mem)+1))
			mem := words.mem[offset:]
			mem[len(like.mem)] = 99
			x := Over(like.Type, mem)
			copy(x.mem, like.mem)
			where := fmt.Sprintf("%s at %d", d, offset)
			require.True(t, Equal(x, like), where)
			require.Equal(t, like.Float64s(), x.Float64s(), where)
			require.Equal(t, like.String(), x.String(), where)
			require.True(t, Equal(x.Clone(), like), where)
			for _, to := range dtypes {
				got, want := New(x.Type.With(to)), New(x.Type.With(to))
				require.NoError(t, Convert(got, x), where)
				require.NoError(t, Convert(want, like), where)
				require.True(t, Equal(got, want), "%s to %s", where, to)
			}
			var got, want bytes.Buffer
			if block == 1 && WriteNPY(&want, like) == nil {
				require.NoError(t, WriteNPY(&got, x), where)
				require.Equal(t, want.Bytes(), got.Bytes(), where)
			}
			twos := New(like.Type)
			twos.Fill(2)
			x.Fill(2)
			require.True(t, Equal(x, twos), where)
			require.NoError(t, Convert(x, twos.As(graph.F64)), where)
			require.True(t, Equal(x, twos), where)
			require.Equal(t, byte(99), mem[len(like.mem)], where)
		}
	}
}

func TestOverShort(t *testing.T) {
	require.PanicsWithValue(t, "array: Over(f32[2,2]): 15 bytes of memory, want 16", func() { Over(graph.T(graph.F32, 2, 2), make([]byte, 15)) })
}
