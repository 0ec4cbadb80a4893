//go:build linux && native

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/metal/metaltest"
)

// The transcripts of testdata/native are of commands that load libraries of the system.
func TestNative(t *testing.T) {
	needsEmulated(t)
	play(t, "testdata/native/*.txt", func(*testing.T, string) {})
}

// needsEmulated skips a test where there is no compiler for the emulated GPU.
func needsEmulated(t *testing.T) {
	t.Helper()
	d, err := gomoe.OpenDevice(t.Context(), "metal-emulated")
	metaltest.Compiled(t, err)
	require.NoError(t, d.Close())
}

// Four processes write the same tokens on 1, 2 and 4 ranks whose experts are on the emulated GPU.
func TestCompareDevice(t *testing.T) {
	needsEmulated(t)
	_, said := compareProcesses(t, bytesModel(t), "-device", "metal-emulated")
	require.Contains(t, said, sameOnRanks)
}
