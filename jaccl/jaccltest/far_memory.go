package jaccltest

import (
	"slices"
	"unsafe"
)

// block is a piece of the caller's memory. Buffers that overlap lie in the same block, so
// that the other process reproduces overlaps and alignment.
type block struct {
	At uintptr // the address; only the position within a cache line matters
	B  []byte
}

// place is the location of a buffer in the blocks; the zero place is a nil buffer.
type place struct {
	Block    int // the block's number, from 1; past the last block for an empty buffer
	Off, Len int
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// pack copies buffers into blocks, returning the places of each list of buffers.
func pack(all ...[][]byte) (blocks []block, places [][]place) {
	var bufs [][]byte
	for _, list := range all {
		for _, b := range list {
			if len(b) > 0 {
				bufs = append(bufs, b)
			}
		}
	}
	slices.SortFunc(bufs, func(a, b []byte) int {
		if address(a) < address(b) {
			return -1
		}
		return 1
	})
	for _, b := range bufs {
		at, last := address(b), len(blocks)-1
		if last < 0 || at >= blocks[last].At+uintptr(len(blocks[last].B)) {
			blocks, last = append(blocks, block{At: at}), last+1
		}
		k := &blocks[last]
		off := int(at - k.At)
		k.B = append(k.B, make([]byte, max(0, off+len(b)-len(k.B)))...)
		copy(k.B[off:], b)
	}
	for _, list := range all {
		ps := make([]place, len(list))
		for i, b := range list {
			if b == nil {
				continue
			}
			ps[i] = place{Block: len(blocks) + 1} // empty, and not nil
			for n, k := range blocks {
				if at := address(b); len(b) > 0 && at >= k.At && at < k.At+uintptr(len(k.B)) {
					ps[i] = place{n + 1, int(at - k.At), len(b)}
				}
			}
		}
		places = append(places, ps)
	}
	return blocks, places
}

// laid returns copies of the blocks at addresses with the same position in a cache line.
func laid(blocks []block) []block {
	const line = 64
	out := make([]block, len(blocks))
	for i, k := range blocks {
		room := make([]byte, len(k.B)+line)
		skip := (k.At - address(room)) % line
		out[i] = block{k.At, room[skip:][:len(k.B):len(k.B)]}
		copy(out[i].B, k.B)
	}
	return out
}

// buffers returns the buffers at these places in blocks.
func buffers(ps []place, blocks []block) [][]byte {
	out := make([][]byte, len(ps))
	for i, p := range ps {
		switch {
		case p.Block > len(blocks):
			out[i] = []byte{}
		case p.Block > 0:
			out[i] = blocks[p.Block-1].B[p.Off:][:p.Len:p.Len]
		}
	}
	return out
}
