package measure_test

import (
	"bytes"
	"encoding/json"
	"image/png"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/measure"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
)

// run measures ranks of this process and returns the rows of each.
func run(t *testing.T, n int, o measure.Options) [][]measure.Row {
	t.Helper()
	comms, err := engine.Local(n, jaccl.Options{Deadline: time.Minute})
	require.NoError(t, err)
	rows, errs := make([][]measure.Row, n), make([]error, n)
	var wg sync.WaitGroup
	for i, c := range comms {
		wg.Go(func() {
			errs[i] = measure.Run(t.Context(), "local", c, o, func(r measure.Row) { rows[i] = append(rows[i], r) })
			if errs[i] != nil {
				c.Fail(errs[i])
			}
		})
	}
	wg.Wait()
	for i, c := range comms {
		require.NoError(t, errs[i])
		require.NoError(t, c.Close())
	}
	return rows
}

func TestRun(t *testing.T) {
	rows := run(t, 3, measure.Options{Min: 4, Max: 100, Factor: 5, Batches: 3, Batch: time.Millisecond})
	for i := range rows[1:] {
		if !slices.Equal(rows[i+1], rows[0]) {
			t.Errorf("rank %d has other rows than rank 0", i+1)
		}
	}
	sizes := map[string][]int64{}
	for _, r := range rows[0] {
		sizes[r.Op] = append(sizes[r.Op], r.Bytes)
		if r.Transport != "local" || r.Ranks != 3 || r.Calls < 3 || !(r.Best > 0) || r.Micros < r.Best {
			t.Errorf("%+v", r)
		}
		if want := float64(r.Bytes) / r.Micros / 1e3; math.Abs(r.AlgGBs-want) > 1e-9+want*1e-6 {
			t.Errorf("%s of %d bytes: %v GB/s, want %v", r.Op, r.Bytes, r.AlgGBs, want)
		}
		factor := map[string]float64{"all_sum": 4. / 3, "all_gather": 2. / 3, "reduce_scatter": 2. / 3, "all_to_all": 2. / 3, "broadcast": 1, "send_recv": 1, "barrier": 0}[r.Op]
		if math.Abs(r.BusGBs-factor*r.AlgGBs) > 1e-9 {
			t.Errorf("%s: bus %v of %v GB/s, want a factor of %v", r.Op, r.BusGBs, r.AlgGBs, factor)
		}
	}
	for op, want := range map[string][]int64{
		"all_sum": {4, 20, 100}, "broadcast": {4, 20, 100}, "send_recv": {4, 20, 100}, // whole elements
		"all_gather": {12, 12, 96}, "reduce_scatter": {12, 12, 96}, "all_to_all": {12, 12, 96}, // and for each rank
		"barrier": {0},
	} {
		if !slices.Equal(sizes[op], want) {
			t.Errorf("%s: sizes %v, want %v", op, sizes[op], want)
		}
	}
}

func TestCopy(t *testing.T) {
	var rows []measure.Row
	require.NoError(t, measure.Copy(2, measure.Options{Min: 8, Max: 64, Factor: 8, Batches: 2, Batch: time.Millisecond}, func(r measure.Row) { rows = append(rows, r) }))
	require.Len(t, rows, 2)
	for i, r := range rows {
		if r.Transport != "copy" || r.Bytes != []int64{8, 64}[i] || !(r.Micros >= r.Best && r.Best > 0) || r.AlgGBs <= r.BusGBs {
			t.Errorf("%+v", r)
		}
	}
	if err := measure.Copy(2, measure.Options{}, nil); err == nil {
		t.Error("no options run")
	}
}

func TestOptions(t *testing.T) {
	good := measure.Options{Min: 4, Max: 64, Factor: 2, Batches: 1, Batch: time.Second, Ops: []string{"barrier"}}
	require.NoError(t, good.Check())
	for want, change := range map[string]func(*measure.Options){
		"no operation":  func(o *measure.Options) { o.Ops = []string{"all_dance"} },
		"batches of 0s": func(o *measure.Options) { o.Batch = 0 },
		"sizes of 2":    func(o *measure.Options) { o.Min = 2 },
		"to 3 bytes":    func(o *measure.Options) { o.Max = 3 },
		"grow by 1":     func(o *measure.Options) { o.Factor = 1 },
		"0 batches":     func(o *measure.Options) { o.Batches = 0 },
	} {
		o := good
		change(&o)
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	comms, err := engine.Local(1, jaccl.Options{})
	require.NoError(t, err)
	good.Max = 3
	good.Min = 4
	if err := measure.Run(t.Context(), "local", comms[0], good, nil); err == nil {
		t.Error("wrong options run")
	}
}

func TestOutput(t *testing.T) {
	rows := []measure.Row{
		{Transport: "tcp", Op: "all_sum", Ranks: 2, Bytes: 1024, Micros: 10, Best: 9, AlgGBs: 0.1024, BusGBs: 0.1024},
		{Transport: "tcp", Op: "all_sum", Ranks: 2, Bytes: 1 << 20, Micros: 100, Best: 9, AlgGBs: 10, BusGBs: 10},
		{Transport: "shm", Op: "all_sum", Ranks: 2, Bytes: 1024, Micros: 1, Best: 1, AlgGBs: 1, BusGBs: 1.024},
		{Transport: "tcp", Op: "barrier", Ranks: 2, Micros: 5, Best: 4},
	}
	var table bytes.Buffer
	require.NoError(t, measure.Markdown(&table, rows))
	want := "| operation | ranks | bytes | tcp µs (GB/s) | shm µs (GB/s) |\n|---|--:|--:|--:|--:|\n" +
		"| all_sum | 2 | 1024 | 10.0 (0.10) | 1.0 (1.02) |\n| all_sum | 2 | 1048576 | 100.0 (10.00) | – |\n| barrier | 2 | 0 | 5.0 | – |\n"
	if table.String() != want {
		t.Errorf("got\n%s\nwant\n%s", table.String(), want)
	}
	if a, b := len([]rune(measure.Header())), len([]rune(rows[0].String())); a != b {
		t.Errorf("the header has %d columns and a row %d", a, b)
	}
	var line bytes.Buffer
	require.NoError(t, rows[0].JSON(&line))
	var back measure.Row
	require.NoError(t, json.Unmarshal(line.Bytes(), &back))
	if back != rows[0] {
		t.Errorf("%+v comes back as %+v", rows[0], back)
	}

	var plot bytes.Buffer
	require.NoError(t, measure.Plot(&plot, rows))
	if _, err := png.Decode(&plot); err != nil {
		t.Error(err)
	}
	if err := measure.Plot(&plot, rows[3:]); err == nil {
		t.Error("a plot of barriers")
	}
	for n, want := range map[int64]string{0: "0 B", 5: "5 B", 1024: "1 KiB", 3 << 20: "3 MiB", 1 << 30: "1 GiB", 1025: "1025 B"} {
		if got := measure.Size(n); got != want {
			t.Errorf("%d bytes are printed as %q, want %q", n, got, want)
		}
	}
}

// What is exchanged has been written to: untouched memory is one page of zeros, which is read
// faster than any data.
func TestMemoryIsWritten(t *testing.T) {
	var all [][]byte
	alloc := func(n int) ([]byte, error) {
		all = append(all, make([]byte, n))
		return all[len(all)-1], nil
	}
	run(t, 1, measure.Options{Min: 4, Max: 10000, Factor: 5, Batches: 1, Batch: time.Microsecond, Ops: []string{"barrier"}, Alloc: alloc})
	require.Len(t, all, 2)
	for _, b := range all {
		if slices.Contains(b, 0) {
			t.Error("a byte of a buffer is zero still")
		}
	}
}
