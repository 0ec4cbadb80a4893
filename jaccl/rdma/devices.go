package rdma

import (
	"fmt"

	"github.com/gomoe/gomoe/jaccl/job/hostfile"
)

// Wires returns rank's devices, a row for each wire of the mesh, in which each peer has the
// device that faces it, and rank itself none. A mesh has as many wires as the pair of ranks
// with the fewest, as JACCL has it: the others are not used.
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

// MultiWire is the least number of bytes that goes over all wires: JACCL's, and the link's
// of package verbs.
const MultiWire = 512 << 10

// Share returns which of n elements go over wire w of wires, as JACCL divides them: those
// from begin to end.
func Share(n, w, wires int) (begin, end int) {
	per := (n + wires - 1) / wires
	return min(n, w*per), min(n, (w+1)*per)
}
