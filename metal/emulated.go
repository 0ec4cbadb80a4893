package metal

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe/metal/counts"
	"github.com/gomoe/gomoe/metal/internal/emu"
	"github.com/gomoe/gomoe/metal/internal/standin"
	"github.com/gomoe/gomoe/metal/mtl"
)

// Emulation configures the emulated GPU. The zero value is lazy: it runs nothing before the host waits, so that code
// reading results without waiting reads NaNs.
type Emulation struct {
	// Order is the order of threads and groups that a GPU runs concurrently.
	Order Order
	Seed  uint64 // seed of Random
	// Distributed makes each thread of a simdgroup compute its part of a matrix product, as GPUs do. Otherwise one thread
	// computes the whole product, ten times as fast, with the same bits.
	Distributed bool
	// Count makes kernels count their work, for Device.Counts. It overrides Distributed, and takes ten times as long.
	Count bool
	// Tensors emulates a GPU of family Apple10 under macOS 26, which has tensor operations.
	Tensors bool
	// Eager makes the GPU run work as soon as it is committed.
	Eager bool
}

// Order is the order of threads and groups that a GPU runs concurrently.
type Order = standin.Order

// Orders.
const (
	Forward = standin.Forward
	Reverse = standin.Reverse
	Random  = standin.Random
)

// Counts returns the work of the emulated GPU since it was opened. For a real GPU it returns false.
func (d *Device) Counts() (counts.Device, bool) {
	if d.emulation == nil {
		return counts.Device{}, false
	}
	return d.emulation.Counts(), true
}

// Emulated returns a GPU emulated on the processor, for testing. It uses the same driver and kernels, over a stand-in for
// Metal built by a C++ compiler, once per machine. If there is no compiler, the error wraps ErrNoCompiler and says what
// to install. The end of ctx ends the build, and an error then wraps ctx's cause. The caller must close the device after
// all sessions using it.
func Emulated(ctx context.Context, o Emulation) (*Device, error) {
	s := standin.Options{Order: o.Order, Seed: o.Seed, Leader: !o.Distributed, Eager: o.Eager, Count: o.Count}
	if o.Tensors {
		s.Family, s.System = tensorFamily, tensorSystem
	}
	return emulated(ctx, s)
}

// emulated returns a GPU over a stand-in with the options o.
func emulated(ctx context.Context, o standin.Options) (*Device, error) {
	c, err := emu.Find()
	if err != nil {
		return nil, fmt.Errorf("metal: emulated: %w", err)
	}
	compiling, cancel := context.WithCancel(context.Background()) // as long as the device is open
	stop := context.AfterFunc(ctx, cancel)
	s, err := standin.Open(compiling, c, o)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("metal: emulated: %w", err)
	}
	fail := func(err error) (*Device, error) {
		cancel()
		s.Close()
		return nil, err
	}
	if !stop() {
		return fail(fmt.Errorf("metal: emulated: %w", context.Cause(ctx)))
	}
	rt, err := mtl.Load(s.Handle(), s.Handle())
	if err != nil {
		return fail(fmt.Errorf("metal: emulated: %w", err))
	}
	d, err := open(ctx, rt)
	if err != nil {
		return fail(err)
	}
	d.emulation, d.cancel = s, cancel
	return d, nil
}
