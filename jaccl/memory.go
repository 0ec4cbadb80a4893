package jaccl

import (
	"github.com/gomoe/gomoe/collective"
)

// Memory is implemented by communicators that may hand out memory of their link.
type Memory interface {
	// Alloc returns n zeroed bytes that all ranks can read, so operations on them move no
	// byte twice. The bytes are aligned to a page and are released with the communicator.
	// The error is ErrUnsupported if the ranks do not share memory.
	Alloc(n int) ([]byte, error)
	// Lease is link.Lender's Lease, with the same errors; it returns ErrUnsupported if
	// the link is not a Lender. Sessions work in this memory; see collective.Leaser.
	collective.Leaser
}
