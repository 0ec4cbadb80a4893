package main

import (
	"os"

	"github.com/gomoe/gomoe/internal/interrupt"
)

func main() {
	ctx := interrupt.Context()
	interrupt.Exit(ctx, run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
