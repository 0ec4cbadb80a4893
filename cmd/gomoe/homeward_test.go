package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
)

func TestHomeward(t *testing.T) {
	for _, c := range []struct {
		h    homeward
		x    ep.Exchange
		wire graph.DType
		err  string
	}{
		{homeward{}, ep.Rows, graph.NoDType, ""},
		{homeward{"rows", ""}, ep.Rows, graph.NoDType, ""},
		{homeward{"sum", ""}, ep.Sum, graph.NoDType, ""},
		{homeward{"sum", "bf16"}, ep.Sum, graph.BF16, ""},
		{homeward{"all", ""}, "", 0, `-exchange "all", want rows or sum`},
		{homeward{"", "f16"}, "", 0, "-wire f16 is the type of sums, want -exchange sum, too"},
		{homeward{"sum", "i32"}, "", 0, `-wire "i32", want f32, bf16 or f16`},
	} {
		x, wire, err := c.h.parse()
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.x, x)
		require.Equal(t, c.wire, wire)
	}
}
