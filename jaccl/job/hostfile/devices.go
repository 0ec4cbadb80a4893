package hostfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
)

// MaxMesh is the largest number of ranks in a full mesh: JACCL has numbers for no
// more. A file of devices describes at most maxDeviceRanks ranks, in at most
// maxDevicesSize bytes, with at most MaxWires devices facing one peer.
const (
	MaxMesh        = 8
	maxDeviceRanks = 64
	MaxWires       = 4
	maxDevicesSize = 1 << 20
)

// Devices has the RDMA devices connecting the ranks of a job: Devices[i][j] lists the
// devices of rank i that face rank j, one for each wire between the two ranks; an empty
// list means that there is no wire. Devices has a row and a column for every rank.
type Devices [][][]string

// ParseDevices reads a matrix of devices as MLX and JACCL write it: N lists of N
// cells. Each cell is null, a device or a list of devices:
//
//	[[null, "rdma_en5"],
//	 [["rdma_en3"], null]]
//
// A row may also be an object with the row under "rdma", like the hosts of a
// hostfile. The returned matrix has passed Check.
//
// Source: parse_devices_json in MLX's mlx/distributed/jaccl/lib/jaccl/jaccl.cpp.
func ParseDevices(data []byte) (Devices, error) {
	if len(data) > maxDevicesSize {
		return nil, fmt.Errorf("hostfile: devices: %d bytes, want at most %d", len(data), maxDevicesSize)
	}
	var rows []json.RawMessage
	if err := strictjson.UnmarshalOnce(data, &rows); err != nil {
		return nil, fmt.Errorf("hostfile: devices: %w; want a list with one list of devices for every rank", err)
	}
	if len(rows) > maxDeviceRanks {
		return nil, fmt.Errorf("hostfile: devices: %d rows, want at most %d", len(rows), maxDeviceRanks)
	}
	d := make(Devices, len(rows))
	for i, raw := range rows {
		row, err := deviceRow(raw)
		if err != nil {
			return nil, fmt.Errorf("hostfile: devices: row of rank %d: %w", i, err)
		}
		d[i] = row
	}
	if err := d.Check(); err != nil {
		return nil, err
	}
	return d, nil
}

func deviceRow(raw json.RawMessage) ([][]string, error) {
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		var host struct {
			RDMA json.RawMessage `json:"rdma"`
		}
		if err := strictjson.UnmarshalOnce(raw, &host); err != nil {
			return nil, err
		}
		if host.RDMA == nil {
			return nil, fmt.Errorf(`an object without "rdma", want the list of its devices there`)
		}
		raw = host.RDMA
	}
	var cells []json.RawMessage
	if err := strictjson.UnmarshalOnce(raw, &cells); err != nil || cells == nil {
		return nil, fmt.Errorf("%s, want a list of devices", quoted.Text(raw))
	}
	row := make([][]string, len(cells))
	for j, cell := range cells {
		var err error
		if row[j], err = parseDevices(cell); err != nil {
			return nil, fmt.Errorf("cell of rank %d: %w", j, err)
		}
	}
	return row, nil
}

// Check returns the first thing that is wrong with the matrix, or nil: a row of a
// wrong length, a device that faces its own rank, a wire that has only one end, a
// name that no device can have, or a device that is named twice. No cell may name a
// device twice. A Thunderbolt device, rdma_enN, may occur only once in its whole row,
// because one port has one cable; an ordinary adapter may face many peers.
func (d Devices) Check() error {
	wrong := func(format string, a ...any) error { return fmt.Errorf("hostfile: devices: "+format, a...) }
	if len(d) == 0 || len(d) > maxDeviceRanks {
		return wrong("%d rows, want one for each of 1 to %d ranks", len(d), maxDeviceRanks)
	}
	for i, row := range d {
		if len(row) != len(d) {
			return wrong("row of rank %d has %d cells, want one for each of %d ranks", i, len(row), len(d))
		}
	}
	for i, row := range d {
		seen := map[string]int{}
		for j, cell := range row {
			if i == j && len(cell) > 0 {
				return wrong("cell of rank %d in its own row is %s, want null", i, quoted.List(cell))
			}
			if len(cell) > MaxWires {
				return wrong("rank %d faces rank %d with %d devices, want at most %d", i, j, len(cell), MaxWires)
			}
			if len(cell) != len(d[j][i]) {
				return wrong("rank %d faces rank %d with %d devices and that one faces it with %d, want a device at both ends of every wire", i, j, len(cell), len(d[j][i]))
			}
			for k, name := range cell {
				if !isDevice(name) {
					return wrong("rank %d faces rank %d with %s, want a device's name as ibv_devices lists it", i, j, quoted.Text(name))
				}
				other, twice := seen[name]
				switch {
				case slices.Contains(cell[:k], name):
					return wrong("rank %d faces rank %d with %s twice, want every device once", i, j, name)
				case twice && strings.HasPrefix(name, "rdma_en"):
					return wrong("rank %d faces both rank %d and rank %d with %s, want another device for each: a Thunderbolt port has one cable", i, other, j, name)
				}
				seen[name] = j
			}
		}
	}
	return nil
}

// isDevice reports whether name can be the name of a device: 1 to 63 printable ASCII
// characters without spaces.
func isDevice(name string) bool {
	if name == "" || len(name) > 63 {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Mesh returns nil if the ranks are a full mesh for JACCL, 2 to MaxMesh ranks with a
// device for every pair; otherwise it returns the reason. The matrix must have passed
// Check.
func (d Devices) Mesh() error {
	if len(d) < 2 || len(d) > MaxMesh {
		return fmt.Errorf("hostfile: devices: %d ranks, want 2 to %d for a mesh", len(d), MaxMesh)
	}
	for i, row := range d {
		for j, cell := range row {
			if i != j && len(cell) == 0 {
				return fmt.Errorf("hostfile: devices: no device of rank %d faces rank %d, want one for every pair of ranks in a mesh; connect them, or use a ring", i, j)
			}
		}
	}
	return nil
}
