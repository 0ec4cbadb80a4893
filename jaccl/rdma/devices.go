package rdma

import (
	"fmt"

	"github.com/gomoe/gomoe/jaccl/job/hostfile"
)

// rowOf returns rank's device for each peer.
func Row(devices hostfile.Devices, rank, size int) ([]string, error) {
	if len(devices) != size {
		return nil, fmt.Errorf("devices of %d ranks, want those of %d", len(devices), size)
	}
	if err := devices.Check(); err != nil {
		return nil, err
	}
	if err := devices.Mesh(); err != nil {
		return nil, err
	}
	row := make([]string, size)
	for peer, cell := range devices[rank] {
		if peer != rank {
			row[peer] = cell[0]
		}
	}
	return row, nil
}
