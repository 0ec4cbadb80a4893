package tensor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"unsafe"

	"github.com/gomoe/gomoe/internal/infile"
)

// Mapped is a memory-mapped file. Only the pages used are read from disk, and the system can reclaim them when
// memory is short.
type Mapped struct {
	path string
	mem  []byte
	free func() error
}

// Map maps the file at path, which must not be truncated before Close: the system kills a process that accesses a
// mapped byte beyond the end of the file. It is an error if path is a folder, a device or a pipe.
func Map(path string) (*Mapped, error) {
	f, info, err := infile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping keeps the file open
	m := &Mapped{path: path, free: func() error { return nil }}
	if info.Size() == 0 {
		return m, nil // empty files cannot be mapped
	}
	if int64(int(info.Size())) != info.Size() {
		return nil, &fs.PathError{Op: "map", Path: path, Err: fmt.Errorf("%d bytes, more than this system's addresses", info.Size())}
	}
	if m.mem, m.free, err = mapFile(f, int(info.Size())); err != nil {
		return nil, &fs.PathError{Op: "map", Path: path, Err: err}
	}
	return m, nil
}

// Path returns the path given to Map.
func (m *Mapped) Path() string { return m.path }

// Bytes returns the whole file. Writes to it do not reach the file.
func (m *Mapped) Bytes() []byte { return m.mem }

// Drop releases the memory of a part of the file. Its bytes are read from disk again when they are used. Drop keeps
// bytes outside of the file, and bytes sharing a page with other bytes. Data written to the released bytes is lost.
// On systems without such a call, Drop does nothing.
func (m *Mapped) Drop(part []byte) {
	if len(part) == 0 || len(m.mem) == 0 {
		return
	}
	from := int64(uintptr(unsafe.Pointer(unsafe.SliceData(part)))) - int64(uintptr(unsafe.Pointer(unsafe.SliceData(m.mem))))
	to, page := from+int64(len(part)), int64(os.Getpagesize())
	if from < 0 || to > int64(len(m.mem)) {
		return
	}
	from = (from + page - 1) / page * page
	if to < int64(len(m.mem)) { // the last page ends with the file
		to = to / page * page
	}
	if from < to {
		drop(m.mem[from:to])
	}
}

// Close unmaps the file. Its bytes must not be used afterwards.
func (m *Mapped) Close() error {
	if m.free == nil {
		return errors.New("tensor: the file was closed before")
	}
	free := m.free
	m.free, m.mem = nil, nil
	return free()
}
