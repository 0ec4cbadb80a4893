package mtl

import (
	"fmt"
	"os"
	"sync"
)

// Device is a GPU. Its methods may be called by several goroutines at once.
type Device struct {
	object
	facts Facts

	mu        sync.Mutex
	libraries map[libraryKey]*once[*Library]
	pipelines map[pipelineKey]*once[*Pipeline]
}

// Facts are properties of a device, as reported by Metal. Sizes are bytes.
type Facts struct {
	Name              string
	RegistryID        uint64
	Unified           bool   // the host and the GPU share memory
	Family            int    // the greatest n of a supported MTLGPUFamilyApple<n>, 0 if none
	Metal3            bool   // MTLGPUFamilyMetal3 is supported
	ThreadgroupMemory int    // limit per threadgroup
	WorkingSet        uint64 // recommended limit of memory used by the GPU
	BufferLength      uint64 // the length of the longest Buffer
	Page              int    // alignment of pointers and lengths for BufferOver
}

const (
	familyApple1 = 1001 // MTLGPUFamilyApple1, the first of the consecutive families
	familyApple  = 32   // more families than exist
	familyMetal3 = 5001
)

// Device returns the system's default device, or an error wrapping ErrNoMetal. The caller must
// close it, after closing everything made from it.
func (rt *Runtime) Device() (*Device, error) {
	var id uintptr
	_ = rt.Pool(func() error {
		id = invoke(rt.create) // the name contains Create, so the result is retained
		return nil
	})
	if id == 0 {
		return nil, fmt.Errorf("%w: the system has no default device; virtual machines and remote sessions may have none", ErrNoMetal)
	}
	d := &Device{libraries: map[libraryKey]*once[*Library]{}, pipelines: map[pipelineKey]*once[*Pipeline]{}}
	d.own(rt, id)
	d.facts = rt.describe(id)
	return d, nil
}

func (rt *Runtime) describe(id uintptr) Facts {
	f := Facts{
		RegistryID:        uint64(rt.msg(id, rt.sel.registryID)),
		Unified:           truth(rt.msg(id, rt.sel.hasUnifiedMemory)),
		Metal3:            truth(rt.msg(id, rt.sel.supportsFamily, familyMetal3)),
		ThreadgroupMemory: int(rt.msg(id, rt.sel.maxThreadgroupMemoryLength)),
		WorkingSet:        uint64(rt.msg(id, rt.sel.recommendedMaxWorkingSetSize)),
		BufferLength:      uint64(rt.msg(id, rt.sel.maxBufferLength)),
		Page:              os.Getpagesize(),
	}
	_ = rt.Pool(func() error {
		f.Name = rt.text(rt.msg(id, rt.sel.name))
		return nil
	})
	for n := familyApple; n > 0 && f.Family == 0; n-- {
		if truth(rt.msg(id, rt.sel.supportsFamily, uintptr(familyApple1+n-1))) {
			f.Family = n
		}
	}
	return f
}

// Facts returns the device's properties, which are read only once.
func (d *Device) Facts() Facts { return d.facts }

// Name is the device's name.
func (d *Device) Name() string { return d.facts.Name }

// MaxThreadgroupMemory returns the limit on a threadgroup's memory in bytes.
func (d *Device) MaxThreadgroupMemory() int { return d.facts.ThreadgroupMemory }

// RecommendedWorkingSet returns the number of bytes that the GPU can use without slowing down.
func (d *Device) RecommendedWorkingSet() uint64 { return d.facts.WorkingSet }

// Allocated returns the number of bytes allocated by the device in this process.
func (d *Device) Allocated() uint64 {
	return uint64(d.rt.msg(d.id.Load(), d.rt.sel.currentAllocatedSize))
}

// Pool calls f in an autorelease pool: see Runtime.Pool.
func (d *Device) Pool(f func() error) error { return d.rt.Pool(f) }

// Close releases the device with its libraries and pipelines. Owners of everything else made from
// it must have closed it before.
func (d *Device) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.pipelines {
		if p.value != nil {
			p.value.close()
		}
	}
	for _, l := range d.libraries {
		if l.value != nil {
			l.value.close()
		}
	}
	clear(d.pipelines)
	clear(d.libraries)
	d.close()
}

// open returns the device's object, or an error if the device is closed.
func (d *Device) open(op string) (uintptr, error) {
	id := d.id.Load()
	if id == 0 {
		return 0, fmt.Errorf("mtl: %s: the device is closed", op)
	}
	return id, nil
}

// once is a value made by the first caller, while other callers wait.
type once[T any] struct {
	sync.Once
	value T
	err   error
}

// do returns the value, calling f the first time.
func (o *once[T]) do(f func() (T, error)) (T, error) {
	o.Do(func() { o.value, o.err = f() })
	return o.value, o.err
}

// share returns the entry of a key, making one if there is none.
func share[K comparable, T any](mu *sync.Mutex, m map[K]*once[T], k K) *once[T] {
	mu.Lock()
	defer mu.Unlock()
	e := m[k]
	if e == nil {
		e = new(once[T])
		m[k] = e
	}
	return e
}

// forget removes an entry that failed, so that the next caller retries.
func forget[K comparable, T any](mu *sync.Mutex, m map[K]*once[T], k K, e *once[T]) {
	mu.Lock()
	defer mu.Unlock()
	if m[k] == e {
		delete(m, k)
	}
}
