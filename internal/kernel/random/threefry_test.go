package random

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
)

type threefryCase struct {
	Op, Seed, DType  string
	Key, Out, Lo, Hi []string
	Data             uint32
	At               []uint64
}

func words(t *testing.T, s []string) []uint64 {
	t.Helper()
	w := make([]uint64, len(s))
	for i := range s {
		v, err := strconv.ParseUint(s[i], 10, 64)
		require.NoError(t, err)
		w[i] = v
	}
	return w
}

func threefryCases(t *testing.T) []threefryCase {
	t.Helper()
	text, err := os.ReadFile("testdata/threefry.json")
	require.NoError(t, err)
	var cases []threefryCase
	require.NoError(t, json.Unmarshal(text, &cases))
	require.Greater(t, len(cases), 100)
	return cases
}

func flat(keys ...[2]uint32) []uint64 {
	var w []uint64
	for _, k := range keys {
		w = append(w, uint64(k[0]), uint64(k[1]))
	}
	return w
}

// floatBits draws n elements from offset on and returns their bits.
func floatBits(op, dtype string, n int, key [2]uint32, offset uint64, lo, hi uint64) []uint64 {
	w := make([]uint64, n)
	switch dtype {
	case "float64":
		x := make([]float64, n)
		if op == "uniform" {
			Uniform(x, key, offset, math.Float64frombits(lo), math.Float64frombits(hi))
		} else {
			Normal(x, key, offset)
		}
		for i := range x {
			w[i] = math.Float64bits(x[i])
		}
	case "float32":
		x := make([]float32, n)
		if op == "uniform" {
			Uniform(x, key, offset, math.Float32frombits(uint32(lo)), math.Float32frombits(uint32(hi)))
		} else {
			Normal(x, key, offset)
		}
		for i := range x {
			w[i] = uint64(math.Float32bits(x[i]))
		}
	case "bfloat16":
		x := make([]array.Brain, n)
		if op == "uniform" {
			UniformBrain(x, key, offset, array.Brain(lo), array.Brain(hi))
		} else {
			NormalBrain(x, key, offset)
		}
		for i := range x {
			w[i] = uint64(x[i])
		}
	case "float16":
		x := make([]array.Half, n)
		if op == "uniform" {
			UniformHalf(x, key, offset, array.Half(lo), array.Half(hi))
		} else {
			NormalHalf(x, key, offset)
		}
		for i := range x {
			w[i] = uint64(x[i])
		}
	}
	return w
}

func TestThreefryIsJAX(t *testing.T) {
	for i, c := range threefryCases(t) {
		k, want := words(t, c.Key), words(t, c.Out)
		key := [2]uint32{uint32(k[0]), uint32(k[1])}
		n := len(want)
		var got []uint64
		ulps := uint64(0)
		switch c.Op {
		case "seed":
			got = flat(Seed(words(t, []string{c.Seed})[0]))
		case "fold_in":
			got = flat(FoldIn(key, c.Data))
		case "bits":
			x := make([]uint32, n)
			Bits32(x, key, 0)
			for _, v := range x {
				got = append(got, uint64(v))
			}
		case "uniform":
			got = floatBits("uniform", c.DType, n, key, 0, words(t, c.Lo)[0], words(t, c.Hi)[0])
		case "uniform_xor":
			got = []uint64{0}
			for _, w := range floatBits("uniform", c.DType, 20_000, key, 0, words(t, c.Lo)[0], words(t, c.Hi)[0]) {
				got[0] ^= w
			}
		case "normal":
			got = floatBits("normal", c.DType, n, key, 0, 0, 0)
			if ulps = 3; c.DType == "float64" {
				ulps = 32
			}
		case "normal_at":
			for _, at := range c.At {
				got = append(got, floatBits("normal", c.DType, 1, key, at, 0, 0)...)
			}
			ulps = 3
		}
		if c.DType == "bfloat16" || c.DType == "float16" {
			ulps = 0
		}
		what := fmt.Sprintf("case %d, %s %s of key %v", i, c.Op, c.DType, key)
		require.Len(t, got, n, what)
		for j := range want {
			if d := max(got[j], want[j]) - min(got[j], want[j]); d > ulps {
				t.Errorf("%s: element %d is %#x, want %#x (%d apart, want at most %d)", what, j, got[j], want[j], d, ulps)
			}
		}
	}
}

// An empty range is its lower bound, as in JAX.
func TestUniformEmptyRange(t *testing.T) {
	x, y := make([]float32, 9), make([]array.Half, 9)
	Uniform(x, Seed(1), 0, 1, -1)
	UniformHalf(y, Seed(1), 0, array.HalfOf(1), array.HalfOf(-1))
	for i := range x {
		if x[i] != 1 || y[i].Float32() != 1 {
			t.Errorf("element %d of [1, -1) is %v and %v, want 1", i, x[i], y[i].Float32())
		}
	}
}

// A shard is filled without the rest, also beyond 2^32 elements.
func TestRandomOffsets(t *testing.T) {
	key := Seed(7)
	for _, at := range []uint64{0, 1, 13, 1<<32 - 2, 1 << 40} {
		for _, dtype := range []string{"float64", "float32", "bfloat16", "float16"} {
			for _, op := range []string{"uniform", "normal"} {
				one := map[string]uint64{"float64": math.Float64bits(1), "float32": 0x3f800000, "bfloat16": 0x3f80, "float16": 0x3c00}[dtype]
				whole := floatBits(op, dtype, 9, key, at, 0, one)
				part := floatBits(op, dtype, 4, key, at+5, 0, one)
				require.Equal(t, whole[5:], part, "%s %s at %d", op, dtype, at)
			}
		}
	}
	high, low := make([]uint32, 2), make([]uint32, 2)
	Bits32(high, key, 1<<32-1)
	Bits32(low, key, 0)
	require.NotEqual(t, low[0], high[1], "element 2^32 repeats element 0")
}

func TestNormalMoments(t *testing.T) {
	const n = 100_000
	x := make([]float32, n)
	Normal(x, Seed(99), 0)
	var s [5]float64
	for _, v := range x {
		for p := range s {
			s[p] += math.Pow(float64(v), float64(p)) / n
		}
	}
	for p, want := range []float64{1, 0, 1, 0, 3} {
		if math.Abs(s[p]-want) > 0.06 {
			t.Errorf("moment %d is %v, want about %v", p, s[p], want)
		}
	}
}
