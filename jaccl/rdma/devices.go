package rdma

import (
	"fmt"

	"github.com/gomoe/gomoe/jaccl/job/hostfile"
)

// Wires returns rank's devices as one row for each wire of the mesh. A row holds, for each
// peer, the name of the device that faces it, and "" for rank itself. As in JACCL, a mesh
// has as many wires as the pair of ranks with the fewest wires; further wires are not used.
func Wires(devices hostfile.Devices, rank, size int) ([][]string, error) {
	if len(devices) != size {
		return nil, fmt.Errorf("devices of %d ranks, want those of %d", len(devices), size)
	}
	if err := devices.Check(); err != nil {
		return nil, err
	}
	if err := devices.Mesh(); err != nil {
		return nil, err
	}
	wires := hostfile.MaxWires
	for i, row := range devices {
		for j, cell := range row {
			if i != j {
				wires = min(wires, len(cell))
			}
		}
	}
	rows := make([][]string, wires)
	for w := range rows {
		rows[w] = make([]string, size)
		for peer, cell := range devices[rank] {
			if peer != rank {
				rows[w][peer] = cell[w]
			}
		}
	}
	return rows, nil
}

// MultiWire is the least number of bytes that are divided among all wires, both in JACCL
// and in package verbs.
const MultiWire = 512 << 10

// Share returns the range of n elements, from begin up to before end, sent over wire w of
// the given number of wires. It divides like JACCL.
func Share(n, w, wires int) (begin, end int) {
	per := (n + wires - 1) / wires
	return min(n, w*per), min(n, (w+1)*per)
}
