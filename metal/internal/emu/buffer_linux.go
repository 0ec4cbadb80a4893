//go:build linux && (amd64 || arm64)

package emu

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Buffer is memory for kernels. Accesses outside of it are detected: guard pages without access
// rights lie before and after the buffer. Its bytes are initially 0xFF, which is NaN in every
// floating-point type and -1 in every integer, so that unwritten bytes can be recognized.
//
// A buffer starts at a multiple of 16 bytes and lies at the end of its pages. The bytes between its
// last byte and the next multiple of 16, and the bytes of its pages before it, are 0xFF and must
// stay so.
type Buffer struct {
	mapped []byte // guard, whole pages, guard
	data   []byte
}

// guard is the size in bytes of each guard. It exceeds the error of most wrong strides. A guard
// takes addresses, but no memory.
const guard = 1 << 20

// NewBuffer returns a buffer of n bytes outside of Go's heap. The caller must
// close it.
func NewBuffer(n int) (*Buffer, error) {
	b, err := NewZeros(n)
	if err == nil {
		b.reset(n)
	}
	return b, err
}

// NewZeros is like NewBuffer, but the bytes are initially zero. Pages take memory only after they
// are first written.
func NewZeros(n int) (*Buffer, error) {
	if n < 0 || n > 1<<40 {
		return nil, fmt.Errorf("emu: a buffer of %d bytes", n)
	}
	page := unix.Getpagesize()
	pages := (n + page - 1) &^ (page - 1)
	mapped, err := unix.Mmap(-1, 0, pages+2*guard, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("emu: a buffer of %d bytes: %w", n, err)
	}
	if pages > 0 {
		if err := unix.Mprotect(mapped[guard:guard+pages], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			return nil, errors.Join(fmt.Errorf("emu: a buffer of %d bytes: %w", n, err), unix.Munmap(mapped))
		}
	}
	b := &Buffer{mapped: mapped}
	b.lay(n)
	inner := b.mapped[guard : len(b.mapped)-guard]
	for i := range len(inner) - n { // around the buffer
		if before := len(inner) - (n+15)&^15; i >= before {
			i += n
		}
		inner[i] = 0xFF
	}
	return b, nil
}

// reset makes b a new buffer of n bytes, which must fit into its pages.
func (b *Buffer) reset(n int) {
	inner := b.mapped[guard : len(b.mapped)-guard]
	for i := range inner {
		inner[i] = 0xFF
	}
	b.lay(n)
}

// lay makes b's data the n bytes at the end of its pages.
func (b *Buffer) lay(n int) {
	inner := b.mapped[guard : len(b.mapped)-guard]
	start := len(inner) - (n+15)&^15
	b.data = inner[start : start+n : start+n]
}

// NewBufferOf returns a buffer with a copy of data.
func NewBufferOf(data []byte) (*Buffer, error) {
	b, err := NewBuffer(len(data))
	if err == nil {
		copy(b.data, data)
	}
	return b, err
}

// Bytes returns the buffer's memory, valid until Close.
func (b *Buffer) Bytes() []byte { return b.data }

// Close frees the memory. A second Close does nothing.
func (b *Buffer) Close() error {
	if b.mapped == nil {
		return nil
	}
	err := unix.Munmap(b.mapped)
	b.mapped, b.data = nil, nil
	return err
}

// address returns the address of the buffer's byte 0.
func (b *Buffer) address() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b.data))) }

// offset returns an address as an offset from the buffer's byte 0. ok is false unless the address
// lies in the buffer, its pages or its guards.
func (b *Buffer) offset(address uintptr) (int, bool) {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b.mapped)))
	if address < from || address >= from+uintptr(len(b.mapped)) {
		return 0, false
	}
	return int(address) - int(b.address()), true
}

// check returns an error if a store hit the pages just outside of the buffer, where stores do not
// fault.
func (b *Buffer) check() error {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b.mapped))) + guard
	before := int(b.address() - from)
	for i, v := range b.mapped[guard : guard+before] {
		if v != 0xFF {
			return fmt.Errorf("wrote byte %d, %d before its first", i-before, before-i)
		}
	}
	for i, v := range b.mapped[guard+before+len(b.data) : len(b.mapped)-guard] {
		if v != 0xFF {
			return fmt.Errorf("wrote byte %d, it has %d", len(b.data)+i, len(b.data))
		}
	}
	return nil
}
