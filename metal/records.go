package metal

import (
	"unsafe"

	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/metal/mtl"
)

// records are the status records of a rank's instructions. A record is clear whenever its
// instruction is encoded, because reading a record clears it.
type records struct {
	buffer *mtl.Buffer // nil if there are none
	all    [][kernels.StatusLen]int32
}

// recordBytes is the size of a record.
const recordBytes = kernels.StatusLen * 4

func newRecords(gpu *mtl.Device, p *program) (*records, error) {
	n := p.records
	r := &records{}
	if n == 0 {
		return r, nil
	}
	b, err := gpu.Buffer(n * recordBytes)
	if err != nil {
		return nil, err
	}
	r.buffer = b
	r.all = unsafe.Slice((*[kernels.StatusLen]int32)(unsafe.Pointer(unsafe.SliceData(b.Bytes()))), n)
	for i := range r.all {
		r.clear(i)
	}
	return r, nil
}

// offset returns the offset of a record in the buffer, in bytes.
func (r *records) offset(i int) int { return i * recordBytes }

// take returns a record that the GPU no longer uses, and clears it. written is false if nobody has
// written to it.
func (r *records) take(i int) (x [kernels.StatusLen]int32, written bool) {
	x = r.all[i]
	r.clear(i)
	return x, x != r.all[i]
}

func (r *records) clear(i int) {
	for k := range r.all[i] {
		r.all[i][k] = kernels.StatusClear
	}
}

func (r *records) close() {
	if r.buffer != nil {
		r.buffer.Close()
	}
}
