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
	bf16     *halfSet // nil if f32 multiplies bf16 too
	// halfStreams is f32's streams for B of bf16 and of f16.
	halfStreams [2][3]func(*byte)
	quant       *quantSet
}

// Selected returns the name of the kernels that products use: the one that the
// environment variable GOMOE_KERNELS names (portable, avx2, avx512, or amx, which is
// avx512 with other products of bf16; neon on arm64) or, if that is empty, the best
// that this processor has. If it cannot have those that were
// named, it uses the portable ones, and the error says so.
func Selected() (name string, err error) {
	k, err := selection()
	return k.name, err
}

// Use chooses the kernels of this process by name, as GOMOE_KERNELS does. It comes
// before the first product, and the first plan of one: to want others afterwards is an error.
func Use(name string) error {
	if _, err := choose(name, available()); err != nil {
		return err
	}
	if err := os.Setenv("GOMOE_KERNELS", name); err != nil {
		return fmt.Errorf("kernel: %w", err)
	}
	if k, _ := selection(); name != "" && k.name != name {
		return fmt.Errorf("kernel: %s kernels are in use already, too late for %s; choose before the first program is run", k.name, name)
	}
	return nil
}

// selection reads the environment once, so that all products of a process have
// the same bits.
var selection = sync.OnceValues(func() (kernels, error) {
	return choose(os.Getenv("GOMOE_KERNELS"), available())
})

// Available returns the names of the kernels that this processor runs, the best
// first and the portable ones last.
func Available() []string {
	var names []string
	for _, k := range available() {
		names = append(names, k.name)
	}
	return names
}

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
	return portable, fmt.Errorf("kernel: kernels %q are not among those that this processor runs; choose %s, or nothing for the best, with GOMOE_KERNELS or -kernels",
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
