package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// What peers get: inputs and results, in types that numpy has.
func TestDump(t *testing.T) {
	for _, d := range []graph.DType{graph.F32, graph.BF16} {
		l := moeLayer{Tokens: 6, Hidden: 8, Experts: 4, TopK: 2, FFN: 4, DType: d}
		s, err := l.open(true, 1)
		require.NoError(t, err)
		dir := filepath.Join(t.TempDir(), "new")
		require.NoError(t, s.dump(dir))
		for _, name := range []string{"in_x", "in_router", "in_gate", "in_up", "in_down", "want_loss", "want_grad_x", "want_grad_router", "want_grad_gate", "want_grad_up", "want_grad_down"} {
			a, err := array.ReadFile(filepath.Join(dir, name+".npy"))
			require.NoError(t, err)
			if a.Type.DType != graph.F32 {
				t.Errorf("%s of %s is written as %s, want f32", name, d, a.Type)
			}
			if name == "in_gate" && !array.Equal(a.As(d), s.in["gate"]) {
				t.Errorf("%s: the gate's weights change when they are written", d)
			}
			if sum := norm(a); sum == 0 || math.IsNaN(sum) {
				t.Errorf("%s of %s has norm %g", name, d, sum)
			}
		}
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, files, 11)
		require.NoError(t, s.step())
		require.NoError(t, s.close())
	}
}

// The forward workload compares the output alone.
func TestForward(t *testing.T) {
	s, err := moeLayer{Tokens: 6, Hidden: 8, Experts: 4, TopK: 2, FFN: 4, DType: graph.F32}.open(false, 1)
	require.NoError(t, err)
	require.Len(t, s.want, 1)
	require.Equal(t, []int{6, 8}, s.want["out"].Type.Shape)
	require.NoError(t, s.close())
}

// Training lowers the loss, from that of even guesses.
func TestLanguageModel(t *testing.T) {
	m := languageModel{Vocab: 97, Width: 16, Layers: 2, Heads: 2, FFN: 8, Experts: 4, TopK: 2, Seq: 12, Batch: 2,
		Rate: 1e-2, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1, Clip: 1, Balance: 0.01, ZLoss: 0.001}
	s, err := m.open(1)
	require.NoError(t, err)
	losses := s.want["losses"].Float64s()
	require.Len(t, losses, firstSteps)
	if math.Abs(losses[0]-math.Log(97)) > 1 {
		t.Errorf("the first loss is %g, want about log 97 = %g", losses[0], math.Log(97))
	}
	for i := 1; i < len(losses); i++ {
		if !(losses[i] < losses[i-1]) {
			t.Errorf("losses %v do not fall", losses)
		}
	}
	require.NoError(t, s.step())
	require.NoError(t, s.close())
}

// The kernel alone and the program have the same results.
func TestKernelAlone(t *testing.T) {
	alone, err := openKernel(40, 1)
	require.NoError(t, err)
	p, err := openMatmul(graph.F32, 40, 1)
	require.NoError(t, err)
	require.True(t, array.Equal(alone.want["c"], p.want["c"]), "results differ")
	require.NoError(t, p.close())
	_, err = openKernel(40, 2)
	require.ErrorContains(t, err, "one thread")
}
