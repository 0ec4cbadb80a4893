package tensor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"unsafe"

	"github.com/gomoe/gomoe/internal/infile"
)

// Mapped is a file that lies in memory. Only what is used of it is read from the disk, and
// memory that is short is taken back from it.
type Mapped struct {
	path string
	mem  []byte
	free func() error
}

// Map maps the file at path, which must not be made shorter before Close: a process that
// reads a byte of a mapped file that is no longer there is ended by the system. It is an
// error if path is a folder, a device or a pipe.
func Map(path string) (*Mapped, error) {
	f, info, err := infile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // a mapping keeps the file
	m := &Mapped{path: path, free: func() error { return nil }}
	if info.Size() == 0 {
		return m, nil // the system maps no empty file
	}
	if int64(int(info.Size())) != info.Size() {
		return nil, &fs.PathError{Op: "map", Path: path, Err: fmt.Errorf("%d bytes, more than this system's addresses", info.Size())}
	}
	if m.mem, m.free, err = mapFile(f, int(info.Size())); err != nil {
		return nil, &fs.PathError{Op: "map", Path: path, Err: err}
	}
	return m, nil
}

// Path returns the path that the file was opened with.
func (m *Mapped) Path() string { return m.path }

// Bytes returns the whole file. What is written to it does not reach the file.
func (m *Mapped) Bytes() []byte { return m.mem }

// Drop says that bytes of the file will not be used soon, so that they take no memory of the process until they are. Bytes outside
// of the file, and bytes next to those that share a page with them, stay. What was written to the bytes is lost. Where the system
// has no such call it does nothing.
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

// Close ends the mapping. No bytes of the file may be used afterwards.
func (m *Mapped) Close() error {
	if m.free == nil {
		return errors.New("tensor: the file was closed before")
	}
	free := m.free
	m.free, m.mem = nil, nil
	return free()
}
