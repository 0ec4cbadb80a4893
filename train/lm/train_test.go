package lm

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An interrupt before the first step leaves no sample of an untrained model.
func TestInterruptBeforeFirstStep(t *testing.T) {
	args, out := tiny(t, "-sample", "4")
	c, o, corpus := setup(t, args...)
	stop, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout bytes.Buffer
	require.ErrorIs(t, c.train(context.Background(), stop, o, corpus, &stdout), context.Canceled)
	if _, err := os.Stat(filepath.Join(out, "sample.txt")); !os.IsNotExist(err) {
		t.Errorf("sample.txt: got %v, want no such file", err)
	}
}

// A model of layers of nn trains on a mesh, in parts of a batch and in bf16, with its flags beside those of Options.
func TestTrains(t *testing.T) {
	for _, flags := range []string{"", "-dtype bf16 -microbatches 2 -mesh dp=2", "-tight -zero weights -remat all -eval 2"} {
		args, out := tiny(t, append(strings.Fields(flags), "-steps", "60", "-lr", "0.02", "-sample", "5")...)
		said, err := execute(t, args...)
		require.NoError(t, err, "%s: %s", flags, said)
		require.Contains(t, said, ", below the unigram entropy of ", flags)
		_, err = execute(t, args...)
		require.ErrorContains(t, err, "an earlier run has left "+filepath.Join(out, "model.safetensors"))
		require.Equal(t, strings.Contains(flags, "-tight"), strings.Contains(said, "dropped "), "%s: %s", flags, said)
		require.Equal(t, strings.Contains(flags, "-eval"), strings.Contains(said, " on held-out text"), flags)
		for _, name := range append(modelFiles(), "metrics.csv", "training.png", "sample.txt") {
			_, err := os.Stat(filepath.Join(out, name))
			require.NoError(t, err, flags)
		}
	}
}
