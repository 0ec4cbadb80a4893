package metal

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe/metal/internal/emu"
	"github.com/gomoe/gomoe/metal/internal/standin"
	"github.com/gomoe/gomoe/metal/mtl"
)

// Emulation says how the emulated GPU behaves. Its zero is lazy: it does nothing before
// somebody waits, so that who reads before the wait reads NaNs.
type Emulation struct {
	// Order is that of what a GPU does at once: threads, groups of threads.
	Order Order
	Seed  uint64 // of Random
	// Distributed has each thread of a simdgroup compute its part of a matrix product, as
	// GPUs do; otherwise one computes all of it, ten times as fast, to the same bits.
	Distributed bool
	// Eager does what it is given at once.
	Eager bool
}

// Order is the order of what GPUs do at once.
type Order = standin.Order

// Orders.
const (
	Forward = standin.Forward
	Reverse = standin.Reverse
	Random  = standin.Random
)

// Emulated returns a GPU that is emulated on the processor, for tests: the same driver and
// kernels, over a stand-in for Metal that a C++ compiler builds, once per machine. The
// error wraps ErrNoCompiler, and says what to install, where there is none. ctx ends the
// building. The caller closes the device, after all sessions that use it.
func Emulated(ctx context.Context, o Emulation) (*Device, error) {
	c, err := emu.Find()
	if err != nil {
		return nil, fmt.Errorf("metal: emulated: %w", err)
	}
	compiling, cancel := context.WithCancel(context.Background()) // as long as the device is open
	stop := context.AfterFunc(ctx, cancel)
	s, err := standin.Open(compiling, c, standin.Options{Order: o.Order, Seed: o.Seed, Leader: !o.Distributed, Eager: o.Eager})
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
	d, err := open(rt)
	if err != nil {
		return fail(err)
	}
	d.emulation, d.cancel = s, cancel
	return d, nil
}
