package rdma

import "slices"

// registration is memory that is registered with a device.
type registration struct {
	r      *Region // the region containing the memory
	lo, hi uintptr
	key    uint32
	mr     uintptr
}

// register registers n bytes at addr with the device.
func (a *adapter) register(addr, n uintptr) (mr uintptr, key uint32, err error) {
	mr, err = a.lib.create("ibv_reg_mr", a.lib.regMR, a.pd, addr, n, access)
	if err != nil {
		return 0, 0, err
	}
	return mr, *word32(mr, mrLkey), nil
}

// know does Adapters.Know for one adapter.
func (a *adapter) know(r *Region, span uintptr) error {
	size := uintptr(len(r.B))
	for off := uintptr(0); off < size; off += span {
		n := min(span+uintptr(ClassBytes(classes-1)), size-off)
		mr, key, err := a.register(r.addr+off, n)
		if err != nil {
			return err
		}
		all := append(slices.Clone(*a.known.Load()), registration{r, r.addr + off, r.addr + off + n, key, mr})
		a.known.Store(&all) // a new slice, because an exchange may be reading the old one
	}
	return nil
}

// forget does Adapters.Forget for one adapter.
func (a *adapter) forget(r *Region) {
	of := func(k registration) bool { return k.r == r }
	was := *a.known.Load()
	all := slices.DeleteFunc(slices.Clone(was), of)
	a.known.Store(&all)
	for _, k := range was {
		if of(k) {
			invoke(a.lib.deregMR, k.mr)
		}
	}
}

// Regions returns the number of memory regions of the device in use in addition to the
// slabs.
func (a *adapter) Regions() int { return len(*a.known.Load()) }

// keyOf returns the key of n bytes at p. ok is false if they are not within one
// registration.
func (a *adapter) keyOf(p, n uintptr) (key uint32, ok bool) {
	for _, k := range *a.known.Load() {
		if p >= k.lo && p < k.hi && n <= k.hi-p {
			return k.key, true
		}
	}
	return 0, false
}
