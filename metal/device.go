package metal

import (
	"context"
	"fmt"
	"os"
	goruntime "runtime"
	"sync"

	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/metal/internal/emu"
	"github.com/gomoe/gomoe/metal/internal/standin"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/metal/mtl"
	"github.com/gomoe/gomoe/runtime"
)

// Device is a GPU for plans lowered for the target kernels.Metal. Its methods, except Close, may be
// called at any time.
type Device struct {
	kernels.Metal
	gpu    *mtl.Device
	memory memory
	none   *mtl.Buffer // placeholder for arguments without bytes
	// resident has the buffers kept resident for the GPU. It is nil before macOS 15.
	resident *mtl.ResidencySet
	// capture is set if Metal's debugger may record the encoding, which then gets names.
	capture bool
	// noTensors is the reason for not using tensor operations, "" if products use them.
	noTensors string

	// For the emulated GPU only: its stand-in, and the function ending its compiler.
	emulation *standin.Standin
	cancel    func()

	once sync.Once
	err  error // result of Close

	mu    sync.Mutex
	using int // number of users: the device itself until Close, and its allocations
}

var _ runtime.Device = (*Device)(nil)

// Open's error wraps ErrNoMetal if there is no Metal. Emulated's error wraps ErrNoCompiler if there is no
// compiler for its kernels.
var (
	ErrNoMetal    = mtl.ErrNoMetal
	ErrNoCompiler = emu.ErrNoCompiler
)

// Open returns the system's GPU, or an error giving the reason why there is none. It blocks while probing
// the GPU's tensor operations, if it has any; if ctx ends first, the error wraps ctx's cause. The caller
// must close the device after all sessions using it.
func Open(ctx context.Context) (*Device, error) {
	rt, err := mtl.System()
	if err != nil {
		return nil, fmt.Errorf("metal: no GPU on %s/%s; -device metal-emulated runs the same kernels on the processor: %w", goruntime.GOOS, goruntime.GOARCH, err)
	}
	return open(ctx, rt)
}

func open(ctx context.Context, rt *mtl.Runtime) (*Device, error) {
	gpu, err := rt.Device()
	if err != nil {
		return nil, fmt.Errorf("metal: %w", err)
	}
	if err := suits(gpu.Facts()); err != nil {
		gpu.Close()
		return nil, err
	}
	d := &Device{gpu: gpu, using: 1, capture: os.Getenv(captureEnv) == "1"}
	if d.none, err = gpu.Buffer(noneBytes); err != nil {
		gpu.Close()
		return nil, fmt.Errorf("metal: %w", err)
	}
	if d.resident, err = gpu.ResidencySet(); err != nil {
		d.none.Close()
		gpu.Close()
		return nil, fmt.Errorf("metal: %w", err)
	}
	d.resident.Add(d.none)
	d.noTensors = d.tensors(ctx)
	if ctx.Err() != nil {
		d.release()
		return nil, fmt.Errorf("metal: opening %s: %w", d.GPU(), context.Cause(ctx))
	}
	return d, nil
}

// captureEnv is the environment variable with which macOS allows recording a program.
const captureEnv = "MTL_CAPTURE_ENABLED"

// oldestFamily is the first family of GPUs having all features used by the kernels: sums and matrices of
// simdgroups, and bfloat. It begins with the M1.
const oldestFamily = 7

// simdWidth is the number of threads per simdgroup in all kernels.
const simdWidth = 32

// suits returns an error if the kernels cannot run on a GPU.
func suits(gpu mtl.Facts) error {
	if gpu.Family >= oldestFamily {
		return nil
	}
	has := "none of Apple's families"
	if gpu.Family > 0 {
		has = fmt.Sprintf("Apple%d", gpu.Family)
	}
	return fmt.Errorf("metal: the GPU %s is of family %s, want Apple%d or newer, as in Macs with an M1 or later: GPUs of Intel Macs and of virtual machines do not run the kernels; use the host: %w", gpu.Name, has, oldestFamily, ErrNoMetal)
}

// fits returns an error if the memory of one rank's plan exceeds the GPU's recommended working set.
// scratch is the size of the kernels' scratch memory, in addition to the plan's.
func (d *Device) fits(p *lowering.Plan, scratch int) error {
	m := p.Report(1).Mem
	want, most := uint64(m.Inputs)+uint64(m.Results)+uint64(m.Kept)+uint64(m.Arena)+uint64(scratch), d.gpu.RecommendedWorkingSet()
	if want <= most {
		return nil
	}
	return fmt.Errorf("metal: plan %s takes %d bytes on one rank, and %s can work on %d (recommendedMaxWorkingSetSize); spread the plan over more ranks or quantise its weights, and see sysctl iogpu.wired_limit_mb", p.Name, want, d.GPU(), most)
}

// noneBytes is the length of the placeholder buffer for arguments without bytes. Kernels do not read it.
const noneBytes = 64

// GPU is the name of the GPU.
func (d *Device) GPU() string { return d.gpu.Name() }

// Alloc implements runtime.Device.
func (d *Device) Alloc(n int) ([]byte, func(), error) {
	b, err := d.gpu.Buffer(n)
	if err != nil {
		return nil, nil, err
	}
	return b.Bytes(), d.keep(b, b.Bytes(), 0), nil
}

// Adopt implements runtime.Device. The memory must be aligned to 16 bytes. It is used in place: the
// buffer covers the pages containing it, which the system has mapped. Several adopted pieces may share a
// page, and a piece may be adopted several times.
func (d *Device) Adopt(mem []byte) (func(), error) {
	whole, offset, err := pages(mem, d.gpu.Facts().Page)
	if err != nil {
		return nil, err
	}
	b, err := d.gpu.BufferOver(whole)
	if err != nil {
		return nil, err
	}
	return d.keep(b, mem, offset), nil
}

// keep registers mem, at an offset of buffer b, and keeps the GPU open, until free is called.
func (d *Device) keep(b *mtl.Buffer, mem []byte, offset int) (free func()) {
	d.mu.Lock()
	d.using++
	d.mu.Unlock()
	forget := d.memory.add(b, mem, offset)
	d.resident.Add(b)
	return sync.OnceFunc(func() {
		forget()
		d.resident.Remove(b)
		b.Close()
		d.release()
	})
}

// release closes the GPU after its last user.
func (d *Device) release() {
	d.mu.Lock()
	d.using--
	last := d.using == 0
	d.mu.Unlock()
	if !last {
		return
	}
	d.resident.Remove(d.none)
	d.none.Close()
	d.resident.Close()
	d.gpu.Close()
	if d.emulation != nil {
		d.emulation.Close()
	}
}

// Close gives the GPU back as soon as no array remains in its memory. Nobody may open a session with the
// device afterwards. For the emulated GPU the error lists the violations of Metal's rules. Close may be
// called twice.
func (d *Device) Close() error {
	d.once.Do(func() {
		if d.emulation != nil {
			d.cancel()
			r := d.emulation.Report()
			if d.err = complaint(r.Violations()); d.err == nil && r.NoPool() > 0 {
				d.err = fmt.Errorf("metal: %d objects were autoreleased where no pool releases them", r.NoPool())
			}
		}
		d.release()
	})
	return d.err
}

// complaint returns the error for violations of Metal's rules, nil if there are none.
func complaint(against []string) error {
	switch len(against) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("metal: against Metal's rules: %s", against[0])
	}
	return fmt.Errorf("metal: %d times against Metal's rules, first: %s", len(against), against[0])
}
