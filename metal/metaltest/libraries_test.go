package metaltest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/internal/emu"
)

// Whoever asks for other arithmetic gets that alone, since its results have other bits.
func TestArithmetic(t *testing.T) {
	t.Setenv("GOMOE_TEST_ARITHMETIC", "")
	require.Equal(t, []mode{leader, distributed, fenced}, modesOf(nil))
	require.Len(t, ways(nil), 7)
	t.Setenv("GOMOE_TEST_ARITHMETIC", "1")
	require.Equal(t, []way{{contracted, emu.Forward}}, ways(nil))
	require.Equal(t, emu.BuildOptions{Leader: true, Contraction: "on"}, contracted.options())
	require.Equal(t, []mode{fenced}, modesOf([]mode{fenced}))
}
