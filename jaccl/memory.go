package jaccl

import (
	"github.com/gomoe/gomoe/collective"
)

// Memory is implemented by communicators that may have memory of their link.
type Memory interface {
	// Alloc returns n bytes that all ranks see: operations on them move no byte twice.
	// They are zeroed, begin at a page, and are released with the communicator. The
	// error is ErrUnsupported where ranks do not share memory.
	Alloc(n int) ([]byte, error)
	// Lease is that of a Lender, and has its errors; it is ErrUnsupported where the link
	// is none. It is what sessions work in; see collective.Leaser.
	collective.Leaser
}
