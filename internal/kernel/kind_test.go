package kernel

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUse does not change what the process uses.
func TestUse(t *testing.T) {
	now, err := Selected()
	require.NoError(t, err)
	t.Setenv("GOMOE_KERNELS", now.String()) // Use sets it
	require.NoError(t, Use(now.String()))
	require.NoError(t, Use(""))
	require.ErrorContains(t, Use("sse9"), `kernels "sse9" are not among those that this processor runs; choose `)
	for _, k := range Available() {
		if k != now {
			require.ErrorContains(t, Use(k.String()), now.String()+" kernels are in use already, too late for "+k.String())
		}
	}
}

func TestChoose(t *testing.T) {
	have := []Kind{AVX2, Portable}
	for _, c := range []struct {
		name string
		want Kind
		err  string
	}{
		{"", AVX2, ""}, {"avx2", AVX2, ""}, {"portable", Portable, ""},
		{"avx512", Portable, `kernel: kernels "avx512" are not among those that this processor runs; choose avx2 or portable, or nothing for the best, with GOMOE_KERNELS or -kernels`},
		{"AVX2", Portable, `"AVX2" are not`},
	} {
		got, err := choose(c.name, have)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("choose(%q) is %s, %v, want %s, %s", c.name, got, err, c.want, c.err)
		}
	}
	if all := Available(); all[len(all)-1] != Portable {
		t.Errorf("the last of %v is not portable", all)
	}
}

func TestVectors(t *testing.T) {
	for k, want := range map[Kind]Kind{Portable: Portable, NEON: NEON, AVX2: AVX2, AVX512: AVX512, AMX: AVX512} {
		require.Equal(t, want, k.Vectors(), k)
	}
	require.Equal(t, Portable, VectorsOf[float64]())
	k, err := Selected()
	require.NoError(t, err)
	require.Equal(t, k.Vectors(), VectorsOf[float32]())
}

// Code in the Go runtime and in libraries slows down by a factor of 100 while the
// upper halves of vector registers are in use.
func TestAssemblyClearsUpperHalves(t *testing.T) {
	files, err := filepath.Glob("*/asm_*_amd64.s")
	require.NoError(t, err)
	require.Greater(t, len(files), 5)
	for _, name := range files {
		src, err := os.ReadFile(name)
		require.NoError(t, err)
		before, returns := "", 0
		for line := range strings.Lines(string(src)) {
			line = strings.TrimSpace(line)
			if line == "RET" {
				returns++
				if before != "VZEROUPPER" {
					t.Errorf("%s: return %d comes after %q, want VZEROUPPER", name, returns, before)
				}
			}
			before = line
		}
		if returns == 0 {
			t.Errorf("%s: no returns, want those of all functions", name)
		}
	}
}
