//go:build !linux

package numbers

import "testing"

// AtGuard returns x: only Linux supports the inaccessible page.
func AtGuard[T any](_ *testing.T, x []T) []T { return x }
