package tracefile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/tracefile"
)

const (
	zero = `{"traceEvents":[
{"name":"gomoe_clock","ph":"M","ts":0,"pid":0,"tid":0,"args":{"start_unix_ns":1000000000,"offset_ns":0,"uncertain_ns":0}},
{"name":"thread_name","ph":"M","ts":0,"pid":0,"tid":0,"args":{"name":"rank 0"}},
{"name":"dot_general","cat":"kernel","ph":"X","ts":10,"dur":5,"pid":0,"tid":0,"args":{"line":"m.go:3"}}
]}
`
	// Rank 1 began 2 ms later by its clock, which is 3 ms fast: 1 ms before rank 0.
	one = `{"traceEvents":[
{"name":"gomoe_clock","ph":"M","ts":0,"pid":0,"tid":1,"args":{"start_unix_ns":1002000000,"offset_ns":-3000000,"uncertain_ns":40000}},
{"name":"dot_general","cat":"kernel","ph":"X","ts":20.5,"dur":5,"pid":0,"tid":1}
]}
`
)

// The tracks of ranks' devices, as they are written beside a rank's own, are moved with it
// and keep their names, their order and what their segments say.
func TestMergeDevices(t *testing.T) {
	trace := func(rank int, offset string) string {
		return strings.NewReplacer("RANK", fmt.Sprint(rank), "TRACK", fmt.Sprint(2<<20+rank), "OFFSET", offset).Replace(`{"traceEvents":[
{"name":"gomoe_clock","ph":"M","ts":0,"pid":0,"tid":RANK,"args":{"start_unix_ns":1000000000,"offset_ns":OFFSET,"uncertain_ns":0}},
{"name":"wait","cat":"wait","ph":"X","ts":10,"dur":5,"pid":0,"tid":RANK},
{"name":"thread_name","ph":"M","ts":0,"pid":0,"tid":TRACK,"args":{"name":"rank RANK metal"}},
{"name":"thread_sort_index","ph":"M","ts":0,"pid":0,"tid":TRACK,"args":{"sort_index":1}},
{"name":"2 instructions, mul to softmax","cat":"segment","ph":"X","ts":11,"dur":3,"pid":0,"tid":TRACK,"args":{"count":2,"instructions":["mul","softmax"],"lines":["m:2","m:3"],"segment":1}}
]}`)
	}
	var out bytes.Buffer
	m, err := tracefile.Merge(&out, inputs(trace(0, "0"), trace(1, "2000000")))
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, m.Ranks)
	var doc struct {
		TraceEvents []struct {
			Name, Ph string
			Ts, Dur  float64
			Tid      int
			Args     map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &doc))
	var got []string
	for _, e := range doc.TraceEvents {
		if e.Tid >= 2<<20 {
			got = append(got, fmt.Sprintln(e.Tid-(2<<20), e.Name, e.Ts, e.Dur, e.Args))
		}
	}
	require.Equal(t, []string{
		"0 thread_name 0 0 map[name:rank 0 metal]\n", "0 thread_sort_index 0 0 map[sort_index:1]\n",
		"0 2 instructions, mul to softmax 11 3 map[count:2 instructions:[mul softmax] lines:[m:2 m:3] segment:1]\n",
		"1 thread_name 0 0 map[name:rank 1 metal]\n", "1 thread_sort_index 0 0 map[sort_index:1]\n",
		"1 2 instructions, mul to softmax 2011 3 map[count:2 instructions:[mul softmax] lines:[m:2 m:3] segment:1]\n",
	}, got)
}

func inputs(texts ...string) []tracefile.Input {
	var in []tracefile.Input
	for i, s := range texts {
		in = append(in, tracefile.Input{Name: string(rune('a'+i)) + ".json", R: strings.NewReader(s)})
	}
	return in
}

func TestMerge(t *testing.T) {
	var out bytes.Buffer
	m, err := tracefile.Merge(&out, inputs(one, zero))
	require.NoError(t, err)
	if m.Uncertain != 40*time.Microsecond || m.Events != 5 || len(m.Ranks) != 2 || m.Ranks[0] != 0 {
		t.Errorf("merged %+v, want ranks 0 and 1, 5 events, off by 40 µs at most", m)
	}
	var trace struct {
		TraceEvents []struct {
			Name string
			Ph   string
			Ts   float64
			Dur  float64
			Tid  int
			Args map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &trace))
	at := map[int]float64{}
	for _, e := range trace.TraceEvents {
		if e.Ph == "X" {
			at[e.Tid] = e.Ts
			if e.Dur != 5 {
				t.Errorf("a slice of %v µs, want 5", e.Dur)
			}
		} else if e.Ts != 0 {
			t.Errorf("%s was moved to %v", e.Name, e.Ts)
		}
	}
	// Time 0 is when rank 1 began.
	if at[1] != 20.5 || at[0] != 1010 {
		t.Errorf("rank 0 at %v and rank 1 at %v µs, want 1010 and 20.5", at[0], at[1])
	}
	if _, err := tracefile.Merge(&bytes.Buffer{}, inputs(out.String())); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a merged trace: %v, want an error about it", err)
	}
}

// TestCutOff: the trace of a process that was killed ends anywhere.
func TestCutOff(t *testing.T) {
	var out bytes.Buffer
	m, err := tracefile.Merge(&out, inputs(zero, one[:len(one)-20]))
	require.NoError(t, err)
	if m.Events != 4 {
		t.Errorf("%d events, want the 4 complete ones", m.Events)
	}
	require.True(t, json.Valid(out.Bytes()), out.String())
}

func TestErrors(t *testing.T) {
	for _, tc := range []struct {
		want string
		in   []string
	}{
		{"no files", nil},
		{"both of rank 0", []string{zero, zero}},
		{"no trace", []string{"[]"}},
		{"no trace", []string{""}},
		{"in one process", []string{`{"traceEvents":[]}`}},
		{"time \"x\"", []string{strings.Replace(zero, `"ts":10`, `"ts":"x"`, 1)}},
		{"want a number", []string{strings.Replace(zero, `"tid":0`, `"tid":-1`, 1)}},
	} {
		if _, err := tracefile.Merge(&bytes.Buffer{}, inputs(tc.in...)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %q", tc.in, err, tc.want)
		}
	}
}
