package environ

import (
	"errors"
	"fmt"

	"github.com/gomoe/gomoe/internal/infile"
)

// maxFile is the longest of MLX's files in bytes.
const maxFile = 16 << 20

// ReadDevices returns the RDMA devices connecting the ranks, as JSON for
// hostfile.ParseDevices: the value of GOMOE_DEVICES, or else the contents of the file
// named by MLX_IBV_DEVICES. If neither is set, the error explains how to set them.
func (j Job) ReadDevices() ([]byte, error) {
	switch {
	case j.Matrix != "":
		return []byte(j.Matrix), nil
	case j.Devices != "":
		return readFile("devices", j.Devices)
	}
	return nil, errors.New("environ: nothing says which RDMA devices connect the ranks; set MLX_IBV_DEVICES to the file with the matrix, or start with mlx.launch --backend jaccl, or gomoe launch and a hostfile that has \"rdma\"")
}

// ReadNodes returns the addresses of MLX's ring, as JSON for hostfile.ParseNodes: the
// contents of the file named by MLX_HOSTFILE.
func (j Job) ReadNodes() ([]byte, error) {
	if j.Hostfile == "" {
		return nil, errors.New("environ: nothing says at which addresses the ranks of the ring are; set MLX_HOSTFILE to the file with them and MLX_RANK, or start with mlx.launch --backend ring or gomoe launch")
	}
	return readFile("MLX_HOSTFILE", j.Hostfile)
}

// readFile reads one of MLX's files; name is the variable's, for errors.
func readFile(name, path string) ([]byte, error) {
	data, err := infile.Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("environ: %s: %w", name, err)
	}
	return data, nil
}
