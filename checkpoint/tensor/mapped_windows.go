package tensor

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// mapFile maps all of f. The memory is writable, but writes stay private to this process.
func mapFile(f *os.File, n int) ([]byte, func() error, error) {
	section, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, windows.PAGE_WRITECOPY, 0, 0, nil)
	if err != nil {
		return nil, nil, err
	}
	at, err := windows.MapViewOfFile(section, windows.FILE_MAP_COPY, 0, 0, uintptr(n))
	if err != nil {
		return nil, nil, errors.Join(err, windows.CloseHandle(section))
	}
	mem := unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&at))), n)
	return mem, func() error { return errors.Join(windows.UnmapViewOfFile(at), windows.CloseHandle(section)) }, nil
}

// drop does nothing: the system reclaims pages of a file when memory is short.
func drop([]byte) {}
