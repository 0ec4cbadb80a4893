// Package device opens Metal's devices. In programs that cannot load system libraries,
// opening a device is an error that explains why.
package device

import "github.com/gomoe/gomoe/runtime"

// Device is an open device.
type Device interface {
	runtime.Device
	Close() error
}

// Emulated is the name of the device running Metal's kernels on the processor.
const Emulated = "metal-emulated"

// Counting is the name of Emulated with kernels counting their operations.
const Counting = "metal-counting"

// CountingTensors is the name of Counting with tensor operations.
const CountingTensors = "metal-counting-tensors"
