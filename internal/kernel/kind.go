package kernel

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

// Kind is a choice of kernels, by their instructions.
type Kind uint8

const (
	Portable Kind = iota // plain Go
	NEON
	AVX2
	AVX512
	AMX // AVX512 with AMX's tiles for products of bf16, and of many rows and weights in blocks
)

// String returns the kind's name in GOMOE_KERNELS.
func (k Kind) String() string { return [...]string{"portable", "neon", "avx2", "avx512", "amx"}[k] }

// Vectors returns the kind of k's loops over vectors: AVX512 for AMX, and k itself for
// the others.
func (k Kind) Vectors() Kind {
	if k == AMX {
		return AVX512
	}
	return k
}

// VectorsOf returns the kind of this process's loops over vectors of T. For float64 it is
// Portable.
func VectorsOf[T Float]() Kind {
	if unsafe.Sizeof(T(0)) != 4 {
		return Portable
	}
	k, _ := selection()
	return k.Vectors()
}

// Selected returns the kind of kernels that this process uses. It is the kind named by
// the environment variable GOMOE_KERNELS: portable, avx2, avx512 or amx, or neon on
// arm64. If the variable is empty, it is the best kind that this processor runs. If the
// variable names a kind that the processor does not run, the kind is Portable, with an
// error.
func Selected() (Kind, error) { return selection() }

// Use selects the kernels of this process by name, like GOMOE_KERNELS. It must be called
// before the kernels are first used or planned for; selecting others afterwards is an
// error.
func Use(name string) error {
	if _, err := choose(name, Available()); err != nil {
		return err
	}
	if err := os.Setenv("GOMOE_KERNELS", name); err != nil {
		return fmt.Errorf("kernel: %w", err)
	}
	if k, _ := selection(); name != "" && k.String() != name {
		return fmt.Errorf("kernel: %s kernels are in use already, too late for %s; choose before the first program is run", k, name)
	}
	return nil
}

// selection reads the environment once, so that all results of a process have the bits of
// the same kernels.
var selection = sync.OnceValues(func() (Kind, error) {
	return choose(os.Getenv("GOMOE_KERNELS"), Available())
})

// Available returns the kinds that this processor runs, the best first and Portable last.
func Available() []Kind { return append(vectorKinds(), Portable) }

func choose(name string, have []Kind) (Kind, error) {
	if name == "" {
		return have[0], nil
	}
	var names []string
	for _, k := range have {
		names = append(names, k.String())
	}
	if i := slices.Index(names, name); i >= 0 {
		return have[i], nil
	}
	return Portable, fmt.Errorf("kernel: kernels %q are not among those that this processor runs; choose %s, or nothing for the best, with GOMOE_KERNELS or -kernels",
		name, strings.Join(names, " or "))
}
