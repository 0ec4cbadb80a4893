package rdma

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
)

// adapter is an open device: a context, a protection domain, and the memory that is
// registered with it. All endpoints at the device share these. Thunderbolt has a device for
// every peer; a machine of a cluster mostly has one for all peers.
type adapter struct {
	lib     *Library
	name    string
	ctx, pd uintptr
	known   atomic.Pointer[[]registration] // beside the slabs of endpoints
}

// Adapters are the open ones of a rank, by name.
type Adapters map[string]*adapter

// open returns the adapter of that name, which is opened once.
func (all Adapters) open(lib *Library, name string) (*adapter, error) {
	if a := all[name]; a != nil {
		return a, nil
	}
	a := &adapter{lib: lib, name: name}
	a.known.Store(&[]registration{})
	var err error
	if a.ctx, err = lib.open(name); err != nil {
		return nil, err
	}
	if a.pd, err = lib.create("ibv_alloc_pd", lib.allocPD, a.ctx); err != nil {
		a.close()
		return nil, err
	}
	all[name] = a
	return a, nil
}

// Know makes a region known to all, by pieces that begin a span apart and overlap by a
// message. After an error forget is due.
func (all Adapters) Know(r *Region, span uintptr) error {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := all[name].know(r, span); err != nil {
			return fmt.Errorf("device %s: %w", name, err)
		}
	}
	return nil
}

// Forget undoes know.
func (all Adapters) Forget(r *Region) {
	for _, a := range all {
		a.forget(r)
	}
}

// Close closes all, when their endpoints are closed.
func (all Adapters) Close() {
	for _, a := range all {
		a.close()
	}
	clear(all)
}

// close releases the adapter's objects. An object is released before what it uses.
func (a *adapter) close() {
	for _, k := range *a.known.Load() {
		invoke(a.lib.deregMR, k.mr)
	}
	if a.pd != 0 {
		invoke(a.lib.deallocPD, a.pd)
	}
	if a.ctx != 0 {
		invoke(a.lib.closeDevice, a.ctx)
	}
}
