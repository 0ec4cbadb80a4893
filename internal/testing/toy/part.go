package toy

import (
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/runtime"
)

// Part returns the part of a held by the i-th rank of this process.
func Part(t testing.TB, a *runtime.Array, i int) array.Array {
	t.Helper()
	parts, err := a.Parts()
	if err != nil {
		t.Fatal(err)
	}
	return parts[i].Array
}
