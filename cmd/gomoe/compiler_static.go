//go:build !darwin && !native

package main

import (
	"context"

	"github.com/gomoe/gomoe"
)

// compiler returns the reason why there is no emulated GPU.
func compiler(ctx context.Context) (string, error) {
	_, err := gomoe.OpenDevice(ctx, "metal-emulated")
	return "", err
}
