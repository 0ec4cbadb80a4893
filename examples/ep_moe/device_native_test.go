//go:build linux && native

package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/metaltest"
)

// The layer and its gradients on the emulated GPU, on one rank and on two, against loops
// over tokens; every iteration has the same bits.
func TestOnDevice(t *testing.T) {
	for _, flags := range []string{"-mesh=", "-mesh ep=2", "-mesh dp=2,ep=1 -num-layers 2 -top-k 1"} {
		var stdout bytes.Buffer
		args := append(strings.Fields(flags), "-device", "metal-emulated", "-num-tokens", "4", "-hidden", "8", "-hidden-out", "8", "-num-experts", "4")
		err := run(context.Background(), args, &stdout, io.Discard)
		metaltest.Compiled(t, err, flags)
		require.Contains(t, stdout.String(), "--check PASSED", flags)
	}
}
