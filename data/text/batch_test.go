package text

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// counting returns a corpus of 190 bytes to train on and 10 held out, which count upwards.
func counting() *Corpus {
	c := &Corpus{seed: 1}
	for i := range 200 {
		c.Train = append(c.Train, byte(i))
	}
	c.Train, c.Held = c.Train[:190], c.Train[190:]
	return c
}

func TestBatchFollows(t *testing.T) {
	c := counting()
	inputs, targets, err := c.Batch(3, 50, 7)
	require.NoError(t, err)
	require.Len(t, inputs, 350)
	require.Len(t, targets, 350)
	for i := range inputs {
		if targets[i] != inputs[i]+1 || i%7 > 0 && inputs[i] != inputs[i-1]+1 {
			t.Fatalf("element %d: input %d, target %d, not consecutive bytes", i, inputs[i], targets[i])
		}
		if targets[i] >= 190 {
			t.Fatalf("element %d: target %d is held-out text", i, targets[i])
		}
	}
}

// TestBatchGolden fixes the batches. If they changed, losses could not be compared with
// those that people have noted.
func TestBatchGolden(t *testing.T) {
	inputs, _, err := counting().Batch(3, 8, 1)
	require.NoError(t, err)
	if want := []int32{35, 61, 3, 184, 30, 7, 93, 173}; !slices.Equal(inputs, want) {
		t.Errorf("step 3 starts at %v, want %v", inputs, want)
	}
}

func TestBatchDependsOnSeedAndStepOnly(t *testing.T) {
	c := counting()
	ask := func(c *Corpus, step, sequences int) []int32 {
		inputs, _, err := c.Batch(step, sequences, 4)
		require.NoError(t, err)
		return inputs
	}
	first := ask(c, 5, 8)
	ask(c, 6, 8)
	if again := ask(counting(), 5, 8); !slices.Equal(first, again) {
		t.Error("the same step gave another batch")
	}
	if some := ask(c, 5, 3); !slices.Equal(first[:12], some) {
		t.Error("a sequence depends on how many there are beside it")
	}
	if slices.Equal(first, ask(c, 6, 8)) {
		t.Error("two steps have the same batch")
	}
	// Sequences of neighbouring steps must not be each other's shifted by one.
	if slices.Equal(first[4:], ask(c, 6, 7)) || slices.Equal(first[:28], ask(c, 4, 8)[4:]) {
		t.Error("the next step repeats this step's sequences")
	}
	other := counting()
	other.seed = 2
	if slices.Equal(first, ask(other, 5, 8)) || slices.Equal(first, ask(other, 4, 8)) {
		t.Error("two seeds have the same batch")
	}
}

func TestBatchReachesAllText(t *testing.T) {
	c := counting()
	inputs, _, err := c.Batch(0, 4000, 1)
	require.NoError(t, err)
	var seen [256]int
	for _, x := range inputs {
		seen[x]++
	}
	// The windows start at 0..188, about 21 times each.
	for at, n := range seen {
		if at < 189 && (n < 3 || n > 60) || at >= 189 && n > 0 {
			t.Errorf("%d windows start at %d", n, at)
		}
	}
}

func TestHeldBatchSpansHeldText(t *testing.T) {
	c := counting()
	inputs, targets, err := c.HeldBatch(3, 2)
	require.NoError(t, err)
	if want := []int32{190, 191, 193, 194, 197, 198}; !slices.Equal(inputs, want) {
		t.Errorf("inputs %v, want %v", inputs, want)
	}
	if want := []int32{191, 192, 194, 195, 198, 199}; !slices.Equal(targets, want) {
		t.Errorf("targets %v, want %v", targets, want)
	}
	inputs, _, err = c.HeldBatch(1, 9)
	require.NoError(t, err)
	if inputs[0] != 190 {
		t.Errorf("one sequence starts at %d, want 190", inputs[0])
	}
}

func TestBatchErrors(t *testing.T) {
	c := counting()
	for _, test := range []struct {
		name              string
		batch             func(sequences, length int) ([]int32, []int32, error)
		sequences, length int
		want              string // empty: no error
	}{
		{"longest", func(s, l int) ([]int32, []int32, error) { return c.Batch(0, s, l) }, 2, 189, ""},
		{"too long", func(s, l int) ([]int32, []int32, error) { return c.Batch(0, s, l) }, 2, 190, "has 190 bytes to train on, want at least 191"},
		{"no sequences", func(s, l int) ([]int32, []int32, error) { return c.Batch(0, s, l) }, 0, 4, "want at least 1"},
		{"no length", func(s, l int) ([]int32, []int32, error) { return c.Batch(0, s, l) }, 4, -1, "want at least 1"},
		{"longest held", c.HeldBatch, 2, 9, ""},
		{"held too long", c.HeldBatch, 2, 10, "has 10 bytes to hold out, want at least 11"},
		{"nothing held", (&Corpus{}).HeldBatch, 1, 1, "has 0 bytes to hold out, want at least 2"},
	} {
		_, _, err := test.batch(test.sequences, test.length)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: error %v, want one with %q", test.name, err, test.want)
		}
	}
}

func TestUnigramEntropy(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, test := range []struct {
		text string
		bits float64
	}{
		{"aaaa", 0}, {"abab", 1}, {"abcd", 2}, {"aaab", 0.8112781244591328}, {string(all), 8},
	} {
		c := &Corpus{Train: []byte(test.text), Held: []byte("other bytes")}
		nats, bits := c.UnigramEntropy()
		if math.Abs(bits-test.bits) > 1e-12 || math.Abs(nats-test.bits*math.Ln2) > 1e-12 || math.Signbit(bits) {
			t.Errorf("%.8q: %v nats, %v bits; want %v bits", test.text, nats, bits, test.bits)
		}
	}
}

// A rank that wants one sequence of a step gets what it is in the batch.
func TestSequence(t *testing.T) {
	c := counting()
	inputs, targets, err := c.Batch(9, 6, 7)
	require.NoError(t, err)
	for s := range 6 {
		for i, b := range c.Sequence(9, s, 7) {
			if i < 7 && int32(b) != inputs[s*7+i] || i > 0 && int32(b) != targets[s*7+i-1] {
				t.Errorf("byte %d of sequence %d is %d: not that of the batch", i, s, b)
			}
		}
	}
}
