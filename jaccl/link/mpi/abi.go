package mpi

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unsafe"

	"github.com/gomoe/gomoe/internal/quoted"
)

// handle is MPI's name of something: a pointer in Open MPI, an int in MPICH.
type handle uintptr

// abi is how an MPI names and lays out things. There are two: Open MPI's, and
// MPICH's, which Intel MPI, MVAPICH and Cray's share.
type abi struct {
	openMPI     bool
	handleBytes int // size of a handle in an array
	statusBytes int // sizeof(MPI_Status)
	statusError int // offset of MPI_ERROR in it

	world, bytes, errorsReturn, noRequest handle
}

// abiOf returns the ABI of a library, recognised by the library's version text.
func abiOf(version string, find func(string) (uintptr, error)) (abi, error) {
	switch {
	case strings.Contains(version, "Open MPI"):
		a := abi{openMPI: true, handleBytes: 8, statusBytes: 24, statusError: 8}
		for name, h := range map[string]*handle{
			"ompi_mpi_comm_world": &a.world, "ompi_mpi_byte": &a.bytes, "ompi_mpi_errors_return": &a.errorsReturn, "ompi_request_null": &a.noRequest,
		} {
			p, err := find(name)
			if err != nil {
				return abi{}, fmt.Errorf("it says that it is %s and has no %s", quoted.Text(firstLine(version)), name)
			}
			*h = handle(p)
		}
		return a, nil
	case strings.Contains(version, "MPICH"), strings.Contains(version, "Intel(R) MPI"), strings.Contains(version, "MVAPICH"):
		return abi{handleBytes: 4, statusBytes: 20, statusError: 16, world: 0x44000000, bytes: 0x4c00010d, errorsReturn: 0x54000001, noRequest: 0x2c000000}, nil
	}
	return abi{}, fmt.Errorf("it says that it is %s, want Open MPI or one of the family of MPICH", quoted.Text(firstLine(version)))
}

// slot returns the memory of the i-th handle of an array, for MPI to write to.
func (a *abi) slot(mem []byte, i int) unsafe.Pointer { return unsafe.Pointer(&mem[i*a.handleBytes]) }

// at returns the i-th handle of an array.
func (a *abi) at(mem []byte, i int) handle {
	if a.handleBytes == 4 {
		return handle(binary.NativeEndian.Uint32(mem[4*i:]))
	}
	return handle(binary.NativeEndian.Uint64(mem[8*i:]))
}

// move copies the handle at from to the one at to.
func (a *abi) move(mem []byte, to, from int) {
	copy(mem[to*a.handleBytes:][:a.handleBytes], mem[from*a.handleBytes:])
}

// words returns n bytes at an address that is a multiple of 8.
func words(n int) []byte {
	w := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), 8*len(w))[:n:n]
}
