//go:build !((linux || darwin) && (amd64 || arm64))

package rdmatest

import "testing"

// Standin skips the test.
func Standin(t testing.TB, play string) string {
	t.Skip("the stand-in for librdma is for Unix")
	return ""
}
