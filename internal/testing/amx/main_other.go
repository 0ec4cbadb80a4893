//go:build !linux || !amd64

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "amx: it computes instructions of amd64, and needs Linux's traces")
	os.Exit(2)
}
