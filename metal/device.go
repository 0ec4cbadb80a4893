package metal

import (
	"fmt"
	goruntime "runtime"
	"sync"

	"github.com/gomoe/gomoe/metal/internal/emu"
	"github.com/gomoe/gomoe/metal/internal/standin"
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

	// Of the emulated one: what it runs on, nil for others, and what ends its compiler.
	emulation *standin.Standin
	cancel    func()

	once sync.Once
	err  error // of Close

	mu    sync.Mutex
	using int // the device itself until Close, and what it has allocated
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
	d := &Device{gpu: gpu, using: 1}
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
	return b.Bytes(), d.keep(b, b.Bytes()), nil
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
	return d.keep(b, mem), nil
}

// keep has mem found under b until free is called, and the GPU stay as long.
func (d *Device) keep(b *mtl.Buffer, mem []byte) (free func()) {
	d.mu.Lock()
	d.using++
	d.mu.Unlock()
	forget := d.memory.add(b, mem)
	return sync.OnceFunc(func() {
		forget()
		b.Close()
		d.release()
	})
}

// release ends the GPU if nobody uses it.
func (d *Device) release() {
	d.mu.Lock()
	d.using--
	last := d.using == 0
	d.mu.Unlock()
	if !last {
		return
	}
	d.none.Close()
	d.gpu.Close()
	if d.emulation != nil {
		d.emulation.Close()
	}
}

// Close gives the GPU back when the last array that lies in its memory has gone. Nobody
// opens a session with the device afterwards. For the emulated one the error says what was
// done against Metal's rules. It may be called twice.
func (d *Device) Close() error {
	d.once.Do(func() {
		if d.emulation != nil {
			d.cancel()
			d.err = complaint(d.emulation.Report().Violations())
		}
		d.release()
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
