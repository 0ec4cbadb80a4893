package numbers

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/kernel"
)

// Digest returns a digest of the results' bits. All NaNs count as the same.
func Digest(results ...[]float64) string {
	h := sha256.New()
	for _, x := range results {
		for _, x := range x {
			if x != x {
				x = math.NaN()
			}
			fmt.Fprintf(h, "%016x", math.Float64bits(x))
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// Wide returns x as float64.
func Wide[T kernel.Float](x []T) []float64 {
	y := make([]float64, len(x))
	for i, x := range x {
		y[i] = float64(x)
	}
	return y
}

// Drawn returns numbers of size 2⁻¹² to 2⁵ that are the same on every machine. Normals
// may differ between machines, because it computes logarithms.
func Drawn[T kernel.Float](r *rand.Rand, n int) []T {
	x := make([]T, n)
	for i := range x {
		b := r.Uint64()
		y := math.Ldexp(float64(1<<52|b>>12), r.IntN(17)-64)
		if b&1 != 0 {
			y = -y
		}
		x[i] = T(y)
	}
	return x
}

// Family returns a name shared by kinds with the same bits. All kinds with vectors, on
// amd64 and arm64, have the same bits.
func Family(k kernel.Kind) string {
	if k == kernel.Portable {
		return "portable"
	}
	return "vector"
}

// SameEverywhere compares digests with the digests in the file `name`. digests returns,
// for each kind that this processor runs, digests by computation. If update is set, it
// writes the file first.
func SameEverywhere(t *testing.T, name string, update bool, digests func(k kernel.Kind) map[string]string) {
	t.Helper()
	if update {
		lines := map[string]string{}
		for _, k := range kernel.Available() {
			for what, d := range digests(k) {
				lines[what] = fmt.Sprintf("%s %s\n", what, d)
			}
		}
		var text strings.Builder
		for _, what := range slices.Sorted(maps.Keys(lines)) {
			text.WriteString(lines[what])
		}
		require.NoError(t, os.WriteFile(name, []byte(text.String()), 0o644))
	}
	src, err := os.ReadFile(name)
	require.NoError(t, err)
	want := map[string]string{}
	for line := range strings.Lines(string(src)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		require.Positive(t, at, "line %q", line)
		want[line[:at]] = line[at+1:]
	}
	for _, k := range kernel.Available() {
		all := digests(k)
		require.NotEmpty(t, all)
		for what, got := range all {
			if w, ok := want[what]; !ok {
				t.Errorf("%s: no digest of %s, run go test -run TestBits -update", name, what)
			} else if got != w {
				t.Errorf("%s: %s has digest %s, want %s as every machine", k, what, got, w)
			}
		}
	}
}
