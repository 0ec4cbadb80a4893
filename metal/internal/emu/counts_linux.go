//go:build linux && (amd64 || arm64)

package emu

import (
	"strings"
	"unsafe"

	"github.com/gomoe/gomoe/metal/counts"
)

// counters has the layout of msl_counts in abi.h.
type counters struct {
	buffers                                                                      [31]counter1
	memoryRead, memoryWritten, tables                                            uint64
	products16, products32, productsTensor, operations, simdOperations, barriers uint64
	turn, unused                                                                 uint32
}

// counter1 has the layout of msl_counted.
type counter1 struct {
	begin, size                uint64
	seen                       *uint32
	loads, read, once, written uint64
}

// newCounters returns counters for the buffers of a launch.
func newCounters(b *bound) *counters {
	c := new(counters)
	for i, x := range b.buffers {
		if x == nil || i >= len(c.buffers) {
			continue
		}
		at := uint64(b.addresses[i])
		size := uint64(x.address()) + uint64(len(x.data)) - at
		c.buffers[i] = counter1{begin: at, size: size}
		if size > 0 {
			c.buffers[i].seen = unsafe.SliceData(make([]uint32, size))
		}
	}
	return c
}

// add adds the counts of a launch of kernel k with the given number of threadgroups.
func (c *counters) add(to *counts.Counts, k Kernel, groups uint64) {
	n := counts.Counts{
		Threadgroup: counts.Traffic{Loaded: int64(c.memoryRead), Written: int64(c.memoryWritten)}, Tables: int64(c.tables),
		Products16: int64(c.products16), Products32: int64(c.products32), ProductsTensor: int64(c.productsTensor), Operations: int64(c.operations),
		SIMDOperations: int64(c.simdOperations), Barriers: int64(c.barriers), Dispatches: 1, Threadgroups: int64(groups),
	}
	for _, a := range k.Buffers {
		b := c.buffers[a.Index]
		t := counts.Traffic{Loaded: int64(b.loads), Read: int64(b.read), Once: int64(b.once), Written: int64(b.written)}
		n.Buffers[a.Index] = t
		if strings.HasPrefix(a.Type, "constant") {
			n.Constant.Add(t)
		} else {
			n.Device.Add(t)
		}
	}
	to.Add(n)
}
