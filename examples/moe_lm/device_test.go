package main

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// A device that is not there ends the command before it reads a word, and says why.
func TestNoDevice(t *testing.T) {
	args, _ := tiny(t, "-device", "gpu")
	_, err := execute(t, args...)
	require.EqualError(t, err, `-device: device "gpu", want host, metal or metal-emulated`)
	if runtime.GOOS == "darwin" {
		return
	}
	args, _ = tiny(t, "-device", "metal")
	_, err = execute(t, args...)
	require.ErrorContains(t, err, "-device: metal: no GPU on "+runtime.GOOS+"/"+runtime.GOARCH)
}
