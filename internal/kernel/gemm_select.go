package kernel

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

// kernels is one choice of kernels. Without sets they are the portable ones.
type kernels struct {
	name     string
	f32, f64 *set
	quant    *quantSet
}

// Selected returns the name of the kernels that products use: the one that the
// environment variable GOMOE_KERNELS names (portable, avx2 or avx512) or, if that
// is empty, the best that this processor has. If it cannot have those that were
// named, it uses the portable ones, and the error says so.
func Selected() (name string, err error) {
	k, err := selection()
	return k.name, err
}

// selection reads the environment once, so that all products of a process have
// the same bits.
var selection = sync.OnceValues(func() (kernels, error) {
	return choose(os.Getenv("GOMOE_KERNELS"), available())
})

// available returns the kernels that this processor can run, the best first and
// the portable ones last.
func available() []kernels { return append(vectorKernels(), kernels{name: "portable"}) }

func choose(name string, have []kernels) (kernels, error) {
	if name == "" {
		return have[0], nil
	}
	var names []string
	for _, k := range have {
		if k.name == name {
			return k, nil
		}
		names = append(names, k.name)
	}
	portable := have[slices.Index(names, "portable")]
	return portable, fmt.Errorf("kernel: GOMOE_KERNELS: %q is not among those that this processor runs, want %s, or nothing for the best",
		name, strings.Join(names, " or "))
}

// set returns the functions for elements of size bytes, nil for portable loops.
func (k kernels) set(size uintptr) *set {
	if size == 4 {
		return k.f32
	}
	return k.f64
}

func selectedSet[T Float]() *set {
	k, _ := selection() // the error is Selected's to tell
	return k.set(unsafe.Sizeof(T(0)))
}
