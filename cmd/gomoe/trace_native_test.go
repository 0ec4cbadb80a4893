//go:build linux && native

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTraceDevice: the segments of a device lie on a track of its own, one after the other,
// within the step, and name their instructions, not what the host does between.
func TestTraceDevice(t *testing.T) {
	needsEmulated(t)
	dir := t.TempDir()
	program, trace := filepath.Join(dir, "p.graph"), filepath.Join(dir, "trace.json")
	require.NoError(t, os.WriteFile(program, []byte("program p(x f32[8,4]) {\na = softmax(x) axis=1\ne, j = sort(x) dimension=1\nb = transpose(a) permutation=[1,0]\nc, i = sort(b) dimension=1\nd = softmax(c) axis=0\nreturn d, e\n}"), 0o644))
	var out, errs bytes.Buffer
	require.Equal(t, 0, run(t.Context(), []string{"run", "-device", "metal-emulated", "-random", "1", "-trace", trace, program}, nil, &out, &errs), errs.String())
	b, err := os.ReadFile(trace)
	require.NoError(t, err)
	var doc struct {
		TraceEvents []struct {
			Name, Cat, Ph string
			Ts, Dur       float64
			Tid           int
			Args          map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(b, &doc))
	track, tid := "", -1
	var names []string
	var end, from, to float64
	for _, e := range doc.TraceEvents {
		switch {
		case e.Cat == "segment":
			if e.Ts < end || e.Dur <= 0 {
				t.Errorf("%s at %v for %v µs, after one that ended at %v", e.Name, e.Ts, e.Dur, end)
			}
			if end == 0 {
				from = e.Ts
			}
			names, end, tid = append(names, e.Name), e.Ts+e.Dur, e.Tid
			to = end
		case e.Cat == "step" && (from < e.Ts || to > e.Ts+e.Dur):
			t.Errorf("segments from %v to %v, the step is from %v to %v", from, to, e.Ts, e.Ts+e.Dur)
		}
	}
	for _, e := range doc.TraceEvents {
		if e.Name == "thread_name" && e.Tid == tid {
			track = e.Args["name"].(string)
		}
	}
	require.Equal(t, "rank 0 metal", track)
	require.Equal(t, []string{"2 instructions, softmax to transpose", "softmax"}, names)
}
