// Package device opens the devices of Metal, in programs that can load the system's
// libraries; in others it says why there are none.
package device

import "github.com/gomoe/gomoe/runtime"

// Device is one that is open.
type Device interface {
	runtime.Device
	Close() error
}

// Emulated is the name of the device that runs Metal's kernels on the processor.
const Emulated = "metal-emulated"
