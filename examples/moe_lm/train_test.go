package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"image/png"
	"math"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/train"
)

// readMetrics returns the rows of metrics.csv by column.
func readMetrics(t *testing.T, out string) []map[string]float64 {
	t.Helper()
	f, err := os.Open(filepath.Join(out, "metrics.csv"))
	require.NoError(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.NotEmpty(t, rows)
	var steps []map[string]float64
	for _, row := range rows[1:] {
		step := map[string]float64{}
		for i, cell := range row {
			if cell == "" {
				continue
			}
			step[rows[0][i]], err = strconv.ParseFloat(cell, 64)
			require.NoError(t, err)
		}
		steps = append(steps, step)
	}
	return steps
}

func decodePNG(t *testing.T, out string) {
	t.Helper()
	f, err := os.Open(filepath.Join(out, "training.png"))
	require.NoError(t, err)
	defer f.Close()
	img, err := png.Decode(f)
	require.NoError(t, err)
	if b := img.Bounds(); b.Dx() < 800 || b.Dy() < 600 {
		t.Errorf("training.png is %d by %d pixels", b.Dx(), b.Dy())
	}
}

func goroutines() int { return goruntime.NumGoroutine() }

// settled returns the number of goroutines when it is no more than want, or
// after a second.
func settled(want int) int {
	for range 100 {
		if goroutines() <= want {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return goroutines()
}

// Training on a text that repeats comes below the entropy of its bytes, which a
// model that does not look back cannot, on text it has not seen too.
func TestTraining(t *testing.T) {
	before := goroutines()
	args, out := tiny(t, "-steps", "120", "-warmup", "5", "-eval", "40", "-sample", "35", "-lr", "2e-2", "-temperature", "0.05", "-prompt", "the quick ")
	stdout, err := execute(t, args...)
	require.NoError(t, err)
	if after := settled(before); after > before {
		t.Errorf("%d goroutines before the run and %d after", before, after)
	}

	steps := readMetrics(t, out)
	if len(steps) != 120 {
		t.Fatalf("metrics.csv has %d steps, want 120", len(steps))
	}
	_, _, corpus := setup(t, args...)
	unigram, _ := corpus.UnigramEntropy()
	first, last := steps[0], steps[119]
	if first["loss"] < unigram || first["loss"] > 8 {
		t.Errorf("the first loss is %v, want about ln 256 = 5.5", first["loss"])
	}
	if last["smoothed"] > 0.2*unigram || last["held_out"] > 0.2*unigram {
		t.Errorf("loss %v, on held-out text %v: want both below a fifth of the unigram entropy %v", last["smoothed"], last["held_out"], unigram)
	}
	for i, s := range steps {
		share := 0.0
		for e := range 8 {
			share += s[fmt.Sprint("expert_", e)]
		}
		_, held := s["held_out"]
		switch {
		case s["step"] != float64(i+1), s["tokens"] != 128, s["drops"] != 0:
			t.Errorf("step %d: %v", i+1, s)
		case math.Abs(share-1) > 1e-9:
			t.Errorf("step %d: the experts' shares add up to %v", i+1, share)
		case held != ((i+1)%40 == 0):
			t.Errorf("step %d: held-out loss %v, want one every 40 steps", i+1, s["held_out"])
		case !(s["grad_norm"] > 0), !(s["aux"] >= 0.9), !(s["lr"] > 0 && s["lr"] <= 2e-2), !(s["seconds"] > 0), !(s["tokens_per_second"] > 0), !(s["compute_seconds"] > 0), !(s["exchange_seconds"] > 0), s["compute_seconds"]+s["exchange_seconds"]+s["waiting_seconds"] > s["seconds"]:
			t.Errorf("step %d: %v", i+1, s)
		}
	}
	decodePNG(t, out)
	sample, err := os.ReadFile(filepath.Join(out, "sample.txt"))
	require.NoError(t, err)
	if string(sample) != sentence {
		t.Errorf("the model writes %q, want %q", sample, sentence)
	}
	for _, want := range []string{"byte-unigram entropy: ", "8 experts of which 2 per token", "mesh: dp=2,ep=2, 4 ranks", "step   1/120  loss ", "held-out ", " tok/s", "eta ", "experts ", "drops 0",
		"choices of each expert in step 120", "120 steps, 15360 tokens in ", ", below the unigram entropy of ", "sample:\n" + sentence + "", "written: "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the output lacks %q:\n%s", want, stdout)
		}
	}
	for i, line := range strings.Split(stdout, "\n") {
		if len(line) > 100 && !strings.HasPrefix(line, "text: ") && !strings.HasPrefix(line, "written: ") && !strings.HasPrefix(line, "step ") {
			t.Errorf("line %d has %d columns: %s", i+1, len(line), line)
		}
	}
}

// columns returns a column of the metrics.
func column(steps []map[string]float64, name string) []float64 {
	out := make([]float64, len(steps))
	for i, s := range steps {
		out[i] = s[name]
	}
	return out
}

// The same run on any mesh has the same losses: the first to the bit, later ones
// as far as sums of gradients over ranks are formed in another order. Drops are
// the same too.
func TestMeshes(t *testing.T) {
	for _, c := range []struct{ name, capacity string }{{"dropless", "0"}, {"capacity", "0.5"}} {
		t.Run(c.name, func(t *testing.T) {
			var losses, drops []float64
			for _, mesh := range []string{"", "dp=1,ep=1", "dp=2,ep=2", "ep=2,dp=2", "dp=1,ep=8", "dp=4", "tp=2"} {
				args, out := tiny(t, "-steps", "6", "-mesh", mesh, "-capacity", c.capacity, "-eval", "3")
				stdout, err := execute(t, args...)
				require.NoError(t, err)
				steps := readMetrics(t, out)
				l, d := append(column(steps, "loss"), steps[2]["held_out"], steps[5]["held_out"]), column(steps, "drops")
				if losses == nil {
					losses, drops = l, d
					if dropped := d[0] > 0; dropped != (c.capacity != "0") || dropped != strings.Contains(stdout, "dropped ") {
						t.Errorf("drops %v, and the output says:\n%s", d, stdout)
					}
					continue
				}
				for i := range l {
					allowed := 1e-4
					if i == 0 && !strings.Contains(mesh, "tp") {
						allowed = 0
					}
					if math.Abs(l[i]-losses[i]) > allowed {
						t.Errorf("mesh %s: loss %d is %v, on one rank %v, want within %v", mesh, i+1, l[i], losses[i], allowed)
					}
				}
				if d[0] != drops[0] {
					t.Errorf("mesh %s: the first step drops %v choices, on one rank %v", mesh, d[0], drops[0])
				}
			}
		})
	}
}

// A run repeated gives the same bits, on any number of processors.
func TestRepeat(t *testing.T) {
	var want []map[string]float64
	var text string
	for _, procs := range []int{0, 0, 1, 3} {
		args, out := tiny(t, "-steps", "6", "-eval", "2", "-capacity", "0.9", "-sample", "3")
		old := goruntime.GOMAXPROCS(procs)
		_, err := execute(t, args...)
		goruntime.GOMAXPROCS(old)
		require.NoError(t, err)
		got := readMetrics(t, out)
		sample, err := os.ReadFile(filepath.Join(out, "sample.txt"))
		require.NoError(t, err)
		for _, s := range got {
			for _, part := range []string{"", "compute_", "exchange_", "waiting_"} {
				delete(s, part+"seconds")
			}
			delete(s, "tokens_per_second")
		}
		if want == nil {
			want, text = got, string(sample)
			continue
		}
		require.Equal(t, want, got, "GOMAXPROCS %d", procs)
		require.Equal(t, text, string(sample), "GOMAXPROCS %d", procs)
	}
	args, out := tiny(t, "-steps", "6", "-seed", "2")
	_, err := execute(t, args...)
	require.NoError(t, err)
	if readMetrics(t, out)[0]["loss"] == want[0]["loss"] {
		t.Error("another seed gives the same loss")
	}
}

// A run that diverges says so, at which step, and what to do; what it did until
// then is written.
func TestDivergence(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"-lr 1e30", []string{"step 2: ", "training has diverged; lower -lr, or add -finite"}},
		{"-lr 1e30 -finite", []string{"step 2: ", "training has diverged; lower -lr: model.go:", "from finite arguments"}},
		{"-balance 1e38", []string{"step 1: loss 5.", "gradient norm +Inf: ", "nothing was learned before, so the weights to begin with, the batch or a coefficient of the loss is not finite, or too large; add -finite"}},
		{"-lr 1e30 -eval 1", []string{"step 1: ", "training has diverged; lower -lr, or add -finite"}},
	} {
		args, out := tiny(t, strings.Fields(c.args)...)
		_, err := execute(t, append(args, "-warmup", "0")...)
		if err == nil {
			t.Errorf("%s: no error", c.args)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", c.args, err, want)
			}
		}
		if !strings.Contains(c.args, "-eval") {
			if n := len(readMetrics(t, out)); n != 1 {
				t.Errorf("%s: metrics.csv has %d steps, want 1", c.args, n)
			}
			decodePNG(t, out)
		}
	}
}

// A trace has a track for every rank, with every step on it.
func TestTrace(t *testing.T) {
	args, out := tiny(t, "-mesh", "dp=1,ep=4")
	path := filepath.Join(out, "t.json")
	_, err := execute(t, append(args, "-trace", path)...)
	require.NoError(t, err)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var trace struct {
		TraceEvents []struct {
			Name, Cat, Ph string
			Ts, Dur       float64
			Tid           int
			Args          map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(data, &trace))
	tracks, steps := map[int]any{}, map[string]int{}
	kernels, collectives := map[int]int{}, map[int]int{}
	for _, e := range trace.TraceEvents {
		switch {
		case e.Name == "thread_sort_index":
		case e.Ph == "M":
			tracks[e.Tid] = e.Args["name"]
		case e.Cat == "step":
			steps[fmt.Sprint(e.Tid, " ", e.Name)]++
		case e.Cat == "kernel":
			kernels[e.Tid]++
		case e.Cat == "collective":
			collectives[e.Tid]++
		}
		if e.Ts < 0 || e.Dur < 0 {
			t.Errorf("event %+v", e)
		}
	}
	for rank := range 4 {
		if tracks[rank] != fmt.Sprint("rank ", rank) {
			t.Errorf("track %d is named %v", rank, tracks[rank])
		}
		for n := range 3 {
			if name := fmt.Sprint(rank, " train_step step ", n); steps[name] != 1 {
				t.Errorf("%d events %q, want 1 in %v", steps[name], name, steps)
			}
		}
		if kernels[rank] < 100 || kernels[rank] != kernels[0] || collectives[rank] < 6 || collectives[rank] != collectives[0] {
			t.Errorf("rank %d: %d kernels and %d collectives, rank 0: %d and %d", rank, kernels[rank], collectives[rank], kernels[0], collectives[0])
		}
	}
	if len(tracks) != 4 {
		t.Errorf("tracks %v, want 4", tracks)
	}
}

func TestRate(t *testing.T) {
	for _, c := range []struct {
		number, total, warmup int
		want                  float64
	}{
		{1, 100, 10, 0.1}, {5, 100, 10, 0.5}, {10, 100, 10, 1}, {55, 100, 10, 0.55}, {100, 100, 10, 0.1},
		{1, 1, 0, 0.1}, {1, 10, 0, 0.9779754323328191}, {3, 3, 30, 0.1},
	} {
		if got := train.Cosine(1, c.warmup, c.total, 0.1)(c.number); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("step %d of %d, %d to warm up: %v of the peak, want %v", c.number, c.total, c.warmup, got, c.want)
		}
	}
}
