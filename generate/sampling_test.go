package generate

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// drawn counts how often each token is chosen in n places.
func drawn(t *testing.T, s Sampling, logits []float32, n int) []int {
	t.Helper()
	counts := make([]int, len(logits))
	for i := range n {
		x, err := s.Choose(logits, make([]int32, i), 0)
		require.NoError(t, err)
		counts[x.ID]++
	}
	return counts
}

func TestChoose(t *testing.T) {
	logits := []float32{0, float32(math.Log(4)), float32(math.Log(2)), float32(math.Log(1))} // 1 4 2 1 of 8
	const n = 4000
	near := func(counts []int, want ...float64) {
		t.Helper()
		for i, p := range want {
			if got := float64(counts[i]) / n; math.Abs(got-p) > 0.03 || p == 0 && got != 0 {
				t.Errorf("token %d is chosen with probability %.3f, want %.3f", i, got, p)
			}
		}
	}
	near(drawn(t, Sampling{Temperature: 1}, logits, n), 1.0/8, 4.0/8, 2.0/8, 1.0/8)
	near(drawn(t, Sampling{Temperature: 0.5}, logits, n), 1.0/22, 16.0/22, 4.0/22, 1.0/22)
	near(drawn(t, Sampling{Temperature: 1, TopK: 2}, logits, n), 0, 4.0/6, 2.0/6, 0)
	near(drawn(t, Sampling{Temperature: 1, TopK: 3}, logits, n), 1.0/7, 4.0/7, 2.0/7, 0) // the lower id of two alike
	near(drawn(t, Sampling{Temperature: 1, TopP: 0.5}, logits, n), 0, 1, 0, 0)
	near(drawn(t, Sampling{Temperature: 1, TopP: 0.6}, logits, n), 0, 4.0/6, 2.0/6, 0)
	near(drawn(t, Sampling{Temperature: 1, MinP: 0.4}, logits, n), 0, 4.0/6, 2.0/6, 0)
	near(drawn(t, Sampling{Temperature: 1, Bias: map[int32]float64{1: math.Inf(-1), 9: 5}}, logits, n), 1.0/4, 0, 2.0/4, 1.0/4)
	near(drawn(t, Sampling{}, logits, 10), 0)
	if got := drawn(t, Sampling{Seed: 1, Temperature: 1}, logits, 50); slices.Equal(got, drawn(t, Sampling{Seed: 2, Temperature: 1}, logits, 50)) {
		t.Error("the seed changes nothing")
	}

	x, err := Sampling{}.Choose(logits, nil, 3)
	require.NoError(t, err)
	if x.ID != 1 || math.Abs(x.LogProb-math.Log(0.5)) > 1e-6 {
		t.Errorf("greedy: token %d with %g", x.ID, x.LogProb)
	}
	require.Len(t, x.Top, 3)
	for i, id := range []int32{1, 2, 0} { // the lower id of two alike
		if p := []float64{4.0 / 8, 2.0 / 8, 1.0 / 8}[i]; x.Top[i].ID != id || math.Abs(x.Top[i].LogProb-math.Log(p)) > 1e-6 {
			t.Errorf("alternative %d is %v, want token %d with probability %g", i, x.Top[i], id, p)
		}
	}
}

// A token is found as adding weights one by one finds it, in whatever block it is, and none without a weight.
func TestFind(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 3, 1023, 1024, 1025, 2048, 5000} {
		weights := make([]float32, n) // sums of which are exact
		sum := 0
		for i := range weights {
			if w := r.IntN(4); w > 1 {
				weights[i], sum = float32(w), sum+w
			}
		}
		if sum == 0 {
			weights[n/2], sum = 1, 1
		}
		at, before := 0, 0
		for u := range sum {
			for ; before+int(weights[at]) <= u; at++ {
				before += int(weights[at])
			}
			if got := find(weights, float64(u)); got != at {
				t.Fatalf("%d weights: %d is at %d, want %d", n, u, got, at)
			}
		}
		last := n - 1
		for weights[last] == 0 {
			last--
		}
		if got := find(weights, float64(sum)); got != last {
			t.Errorf("%d weights: their sum is at %d, want %d", n, got, last)
		}
	}
}

// Weights are those of the formula at all temperatures, also where the logits divided by it are too large for f32.
func TestWeigh(t *testing.T) {
	logits := []float32{-3, 7.5, 0, float32(math.Inf(-1)), 7.25}
	for _, temperature := range []float64{1e-300, 1e-40, 1e-7, 1e-3, 0.1, 0.7, 1, 1.5, 30, 1e30} {
		weights, sum := Sampling{Temperature: temperature}.weigh(new([]float32), logits, 7.5)
		total := 0.0
		for i, x := range logits {
			want := math.Exp((float64(x) - 7.5) / temperature)
			if total += want; math.Abs(float64(weights[i])-want) > 1e-4*want+1e-38 {
				t.Errorf("temperature %g: weight %d is %g, want %g", temperature, i, weights[i], want)
			}
		}
		if math.Abs(sum-total) > 1e-4*total {
			t.Errorf("temperature %g: the sum is %g, want %g", temperature, sum, total)
		}
	}
}

// The nucleus has the largest candidates in order, and no more than it needs, as sorting would give them.
func TestNucleus(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 60 {
		var cs []candidate
		sum := 0.0
		for i := range n {
			cs = append(cs, candidate{int32(i), float64(r.IntN(8))})
			sum += cs[i].x
		}
		sorted := slices.SortedFunc(slices.Values(cs), descending)
		want, part, had := []candidate(nil), sum*0.7, 0.0
		for _, c := range sorted {
			if want = append(want, c); had+c.x >= part {
				break
			}
			had += c.x
		}
		require.Equal(t, want, nucleus(cs, part))
	}
}

// Tokens that are there already become less likely, whether their logits are positive or not, and only once but for
// Frequency.
func TestPenalties(t *testing.T) {
	for _, c := range []struct {
		s    Sampling
		want int32
	}{
		{Sampling{Repetition: 3}, 1}, {Sampling{Repetition: 1.5}, 0}, {Sampling{Presence: 1.5}, 1}, {Sampling{Presence: 0.5}, 0},
		{Sampling{Frequency: 0.6}, 1}, {Sampling{Frequency: 0.4}, 0}, {Sampling{Presence: 0.3, Frequency: 0.4}, 1}, // token 0 is there twice
	} {
		x, err := c.s.Choose([]float32{2, 1, -1}, []int32{0, 0, 2, 77}, 0)
		require.NoError(t, err)
		if x.ID != c.want {
			t.Errorf("%+v chooses %d, want %d", c.s, x.ID, c.want)
		}
	}
	x, err := Sampling{Repetition: 3}.Choose([]float32{-1, -2}, []int32{0}, 0)
	require.NoError(t, err)
	require.Equal(t, int32(1), x.ID)
}

func TestChooseRefuses(t *testing.T) {
	inf := float32(math.Inf(1))
	for want, logits := range map[string][]float32{
		"the logit of token 1 at position 2 is NaN":                  {0, float32(math.NaN())},
		"the largest logit at position 2 is -Inf, want a finite one": {-inf, -inf},
		"the largest logit at position 2 is +Inf":                    {inf},
	} {
		if _, err := (Sampling{}).Choose(logits, []int32{1, 1}, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v\nwant %s", err, want)
		}
	}
	for _, s := range []Sampling{{Temperature: math.NaN()}, {TopK: -1}, {TopP: 1.5}, {MinP: -1}, {Repetition: math.Inf(1)}, {Presence: math.NaN()}, {Frequency: math.Inf(-1)}} {
		if s.Check() == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}
