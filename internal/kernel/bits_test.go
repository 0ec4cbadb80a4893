package kernel

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/bits.txt with this machine's bits")

// digest is of results, with all NaNs alike.
func digest(results ...[]float64) string {
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

func wide[T Float](x []T) []float64 {
	y := make([]float64, len(x))
	for i, x := range x {
		y[i] = float64(x)
	}
	return y
}

// drawn returns numbers of size 2⁻¹² to 2⁵ that are the same on every machine; the
// logarithms in normals may not be.
func drawn[T Float](r *rand.Rand, n int) []T {
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

// lacking names loops that v does not have, and whose results are the scalar ones.
func lacking(v vectors) []string {
	return map[vectors][]string{neon: {}}[v]
}

// digests returns those of a choice of kernels, by what was computed. What the
// portable kernels make of math.Exp is left out: it differs between machines.
func digests(k kernels) map[string]string {
	family := "vector"
	if k.f32 == nil {
		family = "portable"
	}
	all := map[string]string{}
	all[family+" gemm f32"], all[family+" gemm f64"] = gemmDigest[float32](k), gemmDigest[float64](k)
	for i, l := range rowLoops {
		if family == "portable" && !slices.Contains([]string{"scale_max", "max", "scaled", "adamw"}, l.name) {
			continue
		}
		if slices.Contains(lacking(k.vectors()), l.name) {
			continue
		}
		r := rand.New(rand.NewPCG(29, uint64(i)))
		in := make([][]float32, l.in)
		for j := range in {
			in[j] = drawn[float32](r, 2011)
		}
		out := make([][]float32, l.out)
		for j := range out {
			out[j] = make([]float32, 2011)
		}
		returned := l.do(k.vectors(), out, in)
		results := [][]float64{{returned}}
		for _, y := range out {
			results = append(results, wide(y))
		}
		if l.in == 1 && returned == 0 { // of one element each: all that are special too
			x := sweep(100003)
			y := make([]float32, len(x))
			l.do(k.vectors(), [][]float32{y}, [][]float32{x})
			results = append(results, wide(y))
		}
		all[family+" "+l.name] = digest(results...)
	}
	return all
}

func gemmDigest[T Float](k kernels) string {
	r := rand.New(rand.NewPCG(31, 32))
	var results [][]float64
	for i, s := range [][3]int{{1, 300, 700}, {2, 130, 70}, {3, 101, 300}, {37, 70, 600}, {130, 49, 258}, {9, 60, 1100}} {
		for layout := range 4 {
			m, n, deep := s[0], s[1], s[2]
			p := product[T]{m: m, n: n, k: deep, ars: deep, acs: 1, brs: n, bcs: 1, ldc: n, acc: i%2 == 0,
				a: drawn[T](r, m*deep), b: drawn[T](r, deep*n), c: drawn[T](r, m*n)}
			if layout&1 != 0 {
				p.ars, p.acs = 1, m
			}
			if layout&2 != 0 {
				p.brs, p.bcs = 1, deep
			}
			results = append(results, wide(p.by(k)))
		}
	}
	return digest(results...)
}

// Results have the bits that testdata/bits.txt tells, whatever the machine: those
// of one kind of vectors are those of another, on amd64 and arm64.
func TestBits(t *testing.T) {
	name := filepath.Join("testdata", "bits.txt")
	if *update {
		lines := map[string]string{}
		for _, k := range available() {
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
	for _, k := range available() {
		for what, got := range digests(k) {
			if w, ok := want[what]; !ok {
				t.Errorf("%s: no digest of %s, run go test -run TestBits -update", name, what)
			} else if got != w {
				t.Errorf("%s: %s has digest %s, want %s as every machine", k.name, what, got, w)
			}
		}
	}
}

func TestDrawn(t *testing.T) {
	for _, x := range drawn[float32](rand.New(rand.NewPCG(33, 34)), 10000) {
		if a := math.Abs(float64(x)); !(a >= 0x1p-12 && a <= 0x1p5) {
			t.Fatalf("%v is not in range", x)
		}
	}
}
