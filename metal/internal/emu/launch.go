package emu

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gomoe/gomoe/metal/counts"
)

// Order is the order of running threadgroups, the simdgroups in them and their lanes. A correct
// kernel has the same result in every order.
type Order uint32

// The orders. Random depends on [Launch.Seed] only.
const (
	Forward Order = iota
	Reverse
	Random
)

func (o Order) String() string {
	return [...]string{"forward", "reverse", "random"}[o%3]
}

// Binding is the value of a kernel's buffer argument: a buffer from byte Offset on, or a copy of
// Bytes, as made by setBytes.
type Binding struct {
	Buffer *Buffer
	Offset int
	Bytes  []byte
}

// Launch is one dispatch of a kernel.
type Launch struct {
	Function string
	Groups   [3]int    // threadgroups; 0 counts as 1
	Threads  [3]int    // threads of a threadgroup; 0 counts as 1
	Grid     [3]int    // all threads, instead of Groups, as in dispatchThreads; zero if Groups is used
	Buffers  []Binding // by index
	Memory   []int     // bytes of threadgroup memory, by index; multiples of 16
	Limit    int       // limit on the bytes of threadgroup memory, including the kernel's own arrays; 0 for the GPU's limit
	// Constants are the values of function constants, by index: bool, int16,
	// uint16, int32, uint32 or float32. A constant that is not listed is zero.
	Constants map[int]any
	Order     Order
	Seed      uint64
	// Flush replaces subnormal numbers by zeros in the arguments and results of arithmetic. GPUs
	// may do that with f32.
	Flush   bool
	Workers int // threads of this process to use; 0 means GOMAXPROCS
	// Counts, if not nil, is incremented by the kernel's work. The library must be built for
	// counting; one thread then runs the kernel.
	Counts *counts.Counts
}

// Limits of the emulated GPU, which are Apple's.
const (
	maxThreads = 1024
	maxMemory  = 32768
	maxBytes   = 4096 // limit of setBytes
)

// Argument is a buffer or a piece of threadgroup memory taken by a kernel.
type Argument struct {
	Index int
	Type  string
	Name  string
}

// Kernel is a kernel of a library.
type Kernel struct {
	Name       string
	Buffers    []Argument
	Memory     []Argument
	MaxThreads int // limit of threads per threadgroup; 1024 unless the source sets a lower one
}

// geometry holds a launch's numbers of threadgroups, of threads per threadgroup, and of threads in
// the grid.
type geometry struct{ groups, threads, grid [3]uint32 }

// shape checks the sizes of a launch of kernel k and returns them.
func (l *Launch) shape(k Kernel) (geometry, error) {
	var g geometry
	threads, all := 1, 1
	gridded := l.Grid != [3]int{}
	for i := range 3 {
		n := max(l.Threads[i], 1)
		if l.Threads[i] < 0 || l.Groups[i] < 0 || l.Grid[i] < 0 {
			return g, fmt.Errorf("a negative size: groups %v, threads %v, grid %v", l.Groups, l.Threads, l.Grid)
		}
		groups := max(l.Groups[i], 1)
		grid := groups * n
		if gridded {
			grid = max(l.Grid[i], 1)
			groups = (grid + n - 1) / n
		}
		if grid > math.MaxInt32 || n > maxThreads {
			return g, fmt.Errorf("%d threads in a threadgroup and %d in all, want at most %d and 2^31-1", n, grid, k.MaxThreads)
		}
		threads *= n
		all *= groups
		if all > math.MaxInt32 {
			return g, fmt.Errorf("more than 2^31-1 threadgroups")
		}
		g.groups[i], g.threads[i], g.grid[i] = uint32(groups), uint32(n), uint32(grid)
	}
	if threads > k.MaxThreads {
		return g, fmt.Errorf("%d threads in a threadgroup, want at most %d", threads, k.MaxThreads)
	}
	return g, nil
}

// memory checks the launch's threadgroup memory against k. It returns the offset of each piece, and
// the number of bytes of all pieces.
func (l *Launch) memory(k Kernel) (offsets [32]uint64, total uint32, err error) {
	if len(l.Memory) > 31 {
		return offsets, 0, fmt.Errorf("%d pieces of threadgroup memory, want at most 31", len(l.Memory))
	}
	for i, n := range l.Memory {
		if n < 0 || n > maxMemory || n%16 != 0 {
			return offsets, 0, fmt.Errorf("threadgroup memory %d has %d bytes, want a multiple of 16 up to %d", i, n, maxMemory)
		}
		offsets[i] = uint64(total)
		total += uint32(n)
	}
	if total > maxMemory {
		return offsets, 0, fmt.Errorf("%d bytes of threadgroup memory, want at most %d", total, maxMemory)
	}
	if l.Limit > 0 && int(total) > (l.Limit+15)&^15 {
		return offsets, 0, fmt.Errorf("%d bytes of threadgroup memory, want at most %d", total, l.Limit)
	}
	for _, a := range k.Memory {
		if a.Index >= len(l.Memory) || l.Memory[a.Index] == 0 {
			return offsets, 0, fmt.Errorf("threadgroup memory %d (%s) has no length", a.Index, a.Name)
		}
	}
	return offsets, total, nil
}

// bytesOf returns the bytes of v, the value of a function constant of the given size.
func bytesOf(v any, size int) ([]byte, error) {
	var b []byte
	switch v := v.(type) {
	case bool:
		b = []byte{0}
		if v {
			b[0] = 1
		}
	case int16:
		b = binary.LittleEndian.AppendUint16(nil, uint16(v))
	case uint16:
		b = binary.LittleEndian.AppendUint16(nil, v)
	case int32:
		b = binary.LittleEndian.AppendUint32(nil, uint32(v))
	case uint32:
		b = binary.LittleEndian.AppendUint32(nil, v)
	case float32:
		b = binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))
	default:
		return nil, fmt.Errorf("a %T, want bool, int16, uint16, int32, uint32 or float32", v)
	}
	if len(b) != size {
		return nil, fmt.Errorf("a %T of %d bytes, want %d bytes", v, len(b), size)
	}
	return b, nil
}
