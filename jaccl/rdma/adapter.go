package rdma

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
)

// adapter is an open device: a context, a protection domain, and the memory that is
// registered with them. All endpoints of the device share these. Thunderbolt has a device
// for every peer; a machine of a cluster mostly has one device for all peers.
type adapter struct {
	lib     *Library
	name    string
	ctx, pd uintptr
	known   atomic.Pointer[[]registration] // registered memory, except the slabs of endpoints
}

// Adapters holds the open devices of a rank, by name.
type Adapters map[string]*adapter

// open returns the named adapter. It opens the device if it is not open yet.
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

// Know registers a region with all adapters. The region is registered in pieces beginning
// span bytes apart. Each piece is longer than span by the longest message, so that every
// message is within one piece. After an error the caller must call Forget.
func (all Adapters) Know(r *Region, span uintptr) error {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := all[name].know(r, span); err != nil {
			return fmt.Errorf("device %s: %w", name, err)
		}
	}
	return nil
}

// Forget undoes Know, even if Know has failed halfway.
func (all Adapters) Forget(r *Region) {
	for _, a := range all {
		a.forget(r)
	}
}

// Close closes all adapters. Their endpoints must be closed before.
func (all Adapters) Close() {
	for _, a := range all {
		a.close()
	}
	clear(all)
}

// close releases the adapter's objects. Each object is released before the objects that it
// uses.
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
