//go:build !linux

package numbers

import "testing"

// AtGuard returns x: only under Linux does memory end at a page that cannot be accessed.
func AtGuard[T any](_ *testing.T, x []T) []T { return x }
