//go:build !linux || !(amd64 || arm64)

package emu

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// errElsewhere returns the error of every function on systems that cannot load libraries.
func errElsewhere() error {
	return fmt.Errorf("%w (the emulated GPU runs on linux/amd64 and linux/arm64, this is %s/%s)", errors.ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}

// Library would be a loaded shared object of kernels; on this system there are none.
type Library struct{}

// Stats counts the operations of a library's workers.
type Stats struct{ Switches, Barriers, SimdOps, Threads uint64 }

// Buffer would be memory for kernels; on this system there are none.
type Buffer struct{ data []byte }

// Open returns an error wrapping [errors.ErrUnsupported].
func Open(string) (*Library, error) { return nil, errElsewhere() }

// Kernels returns nothing.
func (l *Library) Kernels() []Kernel { return nil }

// Run returns an error wrapping [errors.ErrUnsupported].
func (l *Library) Run(context.Context, Launch) error { return errElsewhere() }

// Stats returns zeros.
func (l *Library) Stats() Stats { return Stats{} }

// Close does nothing.
func (l *Library) Close() error { return nil }

// NewBuffer returns an error wrapping [errors.ErrUnsupported].
func NewBuffer(int) (*Buffer, error) { return nil, errElsewhere() }

// NewBufferOf returns an error wrapping [errors.ErrUnsupported].
func NewBufferOf([]byte) (*Buffer, error) { return nil, errElsewhere() }

// NewZeros returns an error wrapping [errors.ErrUnsupported].
func NewZeros(int) (*Buffer, error) { return nil, errElsewhere() }

// Bytes returns nothing.
func (b *Buffer) Bytes() []byte { return b.data }

// Close does nothing.
func (b *Buffer) Close() error { return nil }
