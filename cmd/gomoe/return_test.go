package main

import (
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
)

// The flags of the return path have the names of their values, and -wire is for sums alone.
func TestReturnFlags(t *testing.T) {
	for _, c := range []struct {
		args string
		x    ep.Exchange
		wire graph.DType
		err  string
	}{
		{"", ep.Rows, graph.NoDType, ""},
		{"-exchange rows", ep.Rows, graph.NoDType, ""},
		{"-exchange sum", ep.Sum, graph.NoDType, ""},
		{"-exchange sum -wire bf16", ep.Sum, graph.BF16, ""},
		{"-exchange all", "", 0, `invalid value "all" for flag -exchange: want rows or sum`},
		{"-wire f16", "", 0, "-wire f16 is the type of sums, want -exchange sum, too"},
		{"-exchange sum -wire i32", "", 0, `invalid value "i32" for flag -wire: want f32, bf16 or f16`},
	} {
		var x ep.Exchange
		var wire graph.DType
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		returnFlags(fs, &x, &wire)
		err := fs.Parse(strings.Fields(c.args))
		if err == nil {
			err = checkReturn(x, wire)
		}
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.x, x)
		require.Equal(t, c.wire, wire)
	}
}
