package metal

import (
	"errors"
	"fmt"
	goruntime "runtime"
	"sync"

	"github.com/gomoe/gomoe/metal/internal/emu"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/metal/mtl"
	"github.com/gomoe/gomoe/runtime"
)

// Device is a GPU for plans that are made for it, or for kernels.Metal. Its methods may be
// called at any time, but Close.
type Device struct {
	kernels.Metal
	gpu    *mtl.Device
	memory memory
	none   *mtl.Buffer // what arguments without bytes are

	// Of the emulated one: what it holds against the driver, and what ends it.
	complaints func() []string
	end        func() error

	once sync.Once
	err  error // of Close
}

var _ runtime.Device = (*Device)(nil)

// ErrNoMetal is wrapped by Open's error where there is no Metal, and ErrNoCompiler by
// Emulated's where there is no compiler for its kernels.
var (
	ErrNoMetal    = mtl.ErrNoMetal
	ErrNoCompiler = emu.ErrNoCompiler
)

// Open returns the system's GPU. The error says why there is none. The caller closes it,
// after all sessions that use it.
func Open() (*Device, error) {
	rt, err := mtl.System()
	if err != nil {
		return nil, fmt.Errorf("metal: no GPU on %s/%s; -device metal-emulated runs the same kernels on the processor: %w", goruntime.GOOS, goruntime.GOARCH, err)
	}
	return open(rt)
}

func open(rt *mtl.Runtime) (*Device, error) {
	gpu, err := rt.Device()
	if err != nil {
		return nil, fmt.Errorf("metal: %w", err)
	}
	d := &Device{gpu: gpu, end: func() error { return nil }, complaints: func() []string { return nil }}
	if d.none, err = gpu.Buffer(noneBytes); err != nil {
		gpu.Close()
		return nil, fmt.Errorf("metal: %w", err)
	}
	return d, nil
}

// noneBytes is the length of the buffer that stands for arguments without bytes, of which
// kernels read nothing.
const noneBytes = 64

// GPU is the name of the GPU.
func (d *Device) GPU() string { return d.gpu.Name() }

// Alloc implements runtime.Device.
func (d *Device) Alloc(n int) ([]byte, func(), error) {
	b, err := d.gpu.Buffer(n)
	if err != nil {
		return nil, nil, err
	}
	return b.Bytes(), d.memory.add(b, b.Bytes()), nil
}

// Adopt implements runtime.Device: of memory that begins at a page, and is mapped up to
// the end of its last one.
func (d *Device) Adopt(mem []byte) (func(), error) {
	whole, err := pages(mem, d.gpu.Facts().Page)
	if err != nil {
		return nil, err
	}
	b, err := d.gpu.BufferOver(whole)
	if err != nil {
		return nil, err
	}
	return d.memory.add(b, mem), nil
}

// Close gives the GPU back. Nobody uses the device meanwhile, or afterwards. For the
// emulated one the error says what was done against Metal's rules. It may be called twice.
func (d *Device) Close() error {
	d.once.Do(func() {
		d.none.Close()
		d.gpu.Close()
		d.err = errors.Join(complaint(d.complaints()), d.end())
	})
	return d.err
}

// complaint is the error of what was done against Metal's rules, nil for nothing.
func complaint(against []string) error {
	switch len(against) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("metal: against Metal's rules: %s", against[0])
	}
	return fmt.Errorf("metal: %d times against Metal's rules, first: %s", len(against), against[0])
}
