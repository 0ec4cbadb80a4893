package primitives_test

import (
	"context"
	"flag"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/internal/testing/late"
	"github.com/gomoe/gomoe/runtime"
)

// The contract is the same for devices: go test -tags native -run Contract . -device
// metal-emulated runs the suite on one; -device late on the host's kernels, run as late
// as a device may.
var onDevice = flag.String("device", "", "`name` of the device that the contract suite runs on")

// device is opened by the first test that uses it, and stays open until the process ends.
var device = sync.OnceValues(func() (runtime.Device, error) {
	if *onDevice == "late" {
		return &late.Device{}, nil
	}
	d, err := gomoe.OpenDevice(context.Background(), *onDevice)
	if d == nil { // a nil device in an interface would not be nil
		return nil, err
	}
	return d, err
})

// watched returns the options of every test of the suite: memory is poisoned before it is
// written. With a device it is not, but the memory that the device allocates begins as NaN.
func watched(t testing.TB) runtime.Options {
	t.Helper()
	d, err := device()
	require.NoError(t, err)
	return runtime.Options{Device: d, Poison: d == nil}
}
