// Command neon writes the assembly for arm64 of matrix products, of products with
// quantised weights and of loops over vectors, one file for each -set, and their declarations in Go. Run it by `go
// generate` in internal/kernel; the results are committed, and a test compares them.
//
// Go's assembler lacks most floating-point instructions on vectors. This program
// encodes them itself and writes each as a WORD, with its text in a comment.
package main

import (
	"flag"
	"log"
	"os"
)

func main() {
	name := flag.String("set", "", "what to write: gemm, vector, quant, math or norm")
	out := flag.String("out", "", "the file of assembly")
	stubs := flag.String("stubs", "", "the file of declarations")
	flag.Parse()
	f, ok := write(*name)
	if !ok {
		log.Fatalf("neon: -set %q, want gemm, vector, quant, math or norm", *name)
	}
	for path, text := range map[string]string{*out: f.assembly(), *stubs: f.declarations()} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			log.Fatalf("neon: %v", err)
		}
	}
}

// write returns the file of a set.
func write(set string) (*file, bool) {
	f := &file{set: set}
	switch set {
	case "gemm":
		f.gemm()
	case "vector":
		f.vector()
	case "quant":
		f.quant()
	case "math":
		f.math()
	case "norm":
		f.norm()
	default:
		return nil, false
	}
	return f, true
}
