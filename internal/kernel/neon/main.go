// Command neon writes the assembly for arm64 of the packages below internal/kernel, one
// file for each -set, and their declarations in Go. Run it by `make generated`; the
// results are committed.
//
// Go's assembler lacks most floating-point instructions on vectors. This program
// encodes them itself and writes each as a WORD, with its text in a comment.
package main

import (
	"flag"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	names := strings.Join(slices.Sorted(maps.Keys(sets())), " or ")
	name := flag.String("set", "", "what to write: "+names)
	out := flag.String("out", "", "the file of assembly")
	stubs := flag.String("stubs", "", "the file of declarations")
	pkg := flag.String("pkg", "", "the package of the declarations")
	flag.Parse()
	write, ok := sets()[*name]
	if !ok {
		log.Fatalf("neon: -set %q, want %s", *name, names)
	}
	f := &file{set: *name, pkg: *pkg}
	write(f)
	for path, text := range map[string]string{*out: f.assembly(), *stubs: f.declarations()} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			log.Fatalf("neon: %v", err)
		}
	}
}

func sets() map[string]func(*file) {
	return map[string]func(*file){
		"gemm": (*file).gemm, "pack": (*file).pack, "loops": (*file).vector, "blocks": (*file).quant, "math": (*file).math,
		"random": (*file).random, "recurrence": (*file).recurrence, "norm": (*file).norm, "softmax": (*file).less,
	}
}
