package late

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/runtime"
)

// Device is a device running the host's own kernels. Its exported fields must not change
// once it is used.
type Device struct {
	// Why returns "" if the device runs instruction i, and otherwise the reason why the
	// host has to run it. nil means that the device runs all instructions.
	Why func(p *lowering.Plan, i int) string
	// Foreign reports whether the elementwise instruction i, of a plan that is not fused
	// yet, is left to the host. nil leaves no instruction to the host.
	Foreign func(p *lowering.Plan, i int) bool
	// Beside makes each segment run as soon as it is submitted, on its own goroutine, for
	// the race detector. Otherwise segments run when waited for.
	Beside bool
	// Fail, if not nil, returns the error of instruction i of a rank, after running it.
	Fail func(rank, i int) error
	// Broken, if not nil, returns the error of submitting a ticket, or of waiting for it.
	Broken func(rank int, ticket uint64, waiting bool) error
	// Stuck, if not nil, keeps every Wait from returning until it is closed.
	Stuck chan struct{}
	// Refuse, if not nil, is the error of Adopt. Refusing, if not nil, returns the error
	// of Open.
	Refuse   error
	Refusing func(rank int) error

	mu      sync.Mutex
	regions []region
	uses    Uses
}

// Uses counts the uses of a device.
type Uses struct {
	Alloc, Adopt, Free    int
	Open, Closed          int // queues opened and closed
	Encode, Commit, Waits int
	Done                  int // instructions run
	Bytes                 int // bytes allocated or adopted, and not freed
}

// region is memory visible to the device.
type region struct{ mem []byte }

var (
	_ runtime.Device   = (*Device)(nil)
	_ lowering.Chainer = (*Device)(nil)
)

// Name returns "late".
func (d *Device) Name() string { return "late" }

// Serves implements lowering.Target.
func (d *Device) Serves(p *lowering.Plan, i int) string {
	if d.Why == nil {
		return ""
	}
	return d.Why(p, i)
}

// Fusible implements lowering.Chainer.
func (d *Device) Fusible(p *lowering.Plan, i int) bool { return d.Foreign == nil || !d.Foreign(p, i) }

// Count returns the counts so far.
func (d *Device) Count() Uses {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.uses
}

func (d *Device) count(f func(*Uses)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(&d.uses)
}

// Alloc implements runtime.Device. The memory is not zeros, and is spoilt when freed.
func (d *Device) Alloc(n int) ([]byte, func(), error) {
	words := make([]uint64, (n+7)/8+1)
	mem := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)[:n:n]
	spoil(mem)
	free := d.add(mem)
	d.count(func(u *Uses) { u.Alloc++ })
	return mem, func() { free(); spoil(mem) }, nil
}

// Adopt implements runtime.Device.
func (d *Device) Adopt(mem []byte) (func(), error) {
	if d.Refuse != nil {
		return nil, d.Refuse
	}
	d.count(func(u *Uses) { u.Adopt++ })
	return d.add(mem), nil
}

func (d *Device) add(mem []byte) (free func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.regions = append(d.regions, region{mem})
	d.uses.Bytes += len(mem)
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.uses.Free++
		d.uses.Bytes -= len(mem)
		d.regions = slices.DeleteFunc(d.regions, func(r region) bool {
			return unsafe.SliceData(r.mem) == unsafe.SliceData(mem)
		})
	})
}

// sees reports whether all of mem is visible to the device.
func (d *Device) sees(mem []byte) bool {
	if len(mem) == 0 {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	at := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	return slices.ContainsFunc(d.regions, func(r region) bool {
		from := uintptr(unsafe.Pointer(unsafe.SliceData(r.mem)))
		return from <= at && at+uintptr(len(mem)) <= from+uintptr(len(r.mem))
	})
}

// spoil fills memory with bytes that are a NaN in every float type and a large integer.
func spoil(mem []byte) {
	for i := range mem {
		mem[i] = 0xff - byte(i%2)*0x80 // 0x7fff
	}
}

// Open implements runtime.Device.
func (d *Device) Open(ctx context.Context, p *lowering.Plan, rank int) (runtime.Queue, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if d.Refusing != nil {
		if err := d.Refusing(rank); err != nil {
			return nil, err
		}
	}
	d.count(func(u *Uses) { u.Open++ })
	return &queue{device: d, plan: p, rank: rank, start: time.Now()}, nil
}

// errClosed is the error of using a queue that is closed.
var errClosed = errors.New("late: the queue is closed")

// unseen is the error of memory that is not visible to the device.
func unseen(p *lowering.Plan, i, b int) error {
	return fmt.Errorf("late: instruction %d, %s: the device does not see buffer %d", i, p.Instrs[i].Name(), b)
}
