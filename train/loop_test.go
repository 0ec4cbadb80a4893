package train_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train"
	"github.com/gomoe/gomoe/train/picture"
	"github.com/gomoe/gomoe/train/report"
	"github.com/gomoe/gomoe/train/snapshot"
)

// reverse is a layer of experts that learns to reverse the columns of its tokens x[1,T,H].
func reverse(s *nn.Scope) *graph.Value {
	x := s.Tracer().Input("x", graph.F32, 1, 32, 8)
	y, _ := nn.MoE{Experts: 4, Width: 16, Route: primitives.RouteOp{TopK: 2, Renormalize: true}}.Apply(s.In("mlp", ""), x)
	y = primitives.Mul(y, primitives.BroadcastInDim(s.Param("norm", "", nn.Init{Mean: 1}, nil, 8), y.Type.Shape, 2)) // named as a result is
	return primitives.MulScalar(primitives.ReduceSum(primitives.Square(primitives.Sub(y, primitives.Reverse(x, 2)))), 1.0/32).Named("loss")
}

// learner is a run of reverse on a mesh, with the loss on a batch that it does not train on.
type learner struct {
	run  *train.Run
	held *train.Evaluation
	loop train.Loop
}

func newLearner(t *testing.T, axes, folder string) *learner {
	t.Helper()
	mesh, err := sharding.ParseMesh(axes)
	require.NoError(t, err)
	p, err := train.Trace("step", train.Config{Optimizer: train.Chain(train.ClipByGlobalNorm(1), train.AdamW(train.AdamWOptions{}))},
		func(s *nn.Scope) (*graph.Value, []*graph.Value) {
			loss := reverse(s)
			r := s.Routed()[0]
			return loss, []*graph.Value{loss, primitives.Reshape(r.Demand, 1, 4).Named("demand"), primitives.Reshape(r.Counts, 1, 4).Named("counts")}
		})
	require.NoError(t, err)
	cfg := gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"x": sharding.Split("", "ep").On(mesh)}}
	l := &learner{}
	l.run, err = train.Open(t.Context(), p, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { l.run.Close() })
	l.held, err = l.run.Evaluation(t.Context(), "held", cfg, func(s *nn.Scope) []*graph.Value { return []*graph.Value{reverse(s)} })
	require.NoError(t, err)
	t.Cleanup(func() { l.held.Close() })
	l.loop = train.Loop{
		Steps: 12, Rate: train.Cosine(0.02, 3, 12, 0.1), Tokens: 32, Every: 5,
		Batch: func(step int) (train.Parts, error) { return train.Whole(tokens(step)), nil },
		HeldOut: func(ctx context.Context) (float64, error) {
			return l.held.Scalar(ctx, "loss", tokens(1000))
		},
		Saves: train.Saves{Folder: snapshot.Folder{Path: filepath.Join(folder, "checkpoints")}, Every: 4,
			Facts: map[string]string{"-experts": "4", "-batch": "1", "-out": "here"}, Model: []string{"-experts"}, Free: []string{"-out"}},
		Figures: train.Figures{Folder: folder, Draw: picture.Draw, Title: "reverse"},
	}
	return l
}

// tokens is a batch, a function of the step.
func tokens(step int) map[string]array.Array {
	x := array.New(graph.T(graph.F32, 1, 32, 8))
	for i, d := 0, array.Data[float32](x); i < len(d); i++ {
		d[i] = float32((i*i+31*i*step+7*step)%97)/48.5 - 1
	}
	return map[string]array.Array{"x": x}
}

// state returns the bytes of all parameters and moments.
func (l *learner) state(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, a := range l.run.State() {
		x, err := a.Get()
		require.NoError(t, err)
		all[name] = string(x.Bytes())
	}
	return all
}

// rows returns the columns step, loss and held_out of metrics.csv.
func rows(t *testing.T, folder string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "metrics.csv"))
	require.NoError(t, err)
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		f := strings.Split(line, ",")
		out = append(out, f[0]+" "+f[1]+" "+f[3])
	}
	return out
}

// A run that is stopped and goes on ends with the bits of one that was not, and its metrics have every step once, with
// the losses on other text where they belong. It leaves a checkpoint when it is stopped.
func TestLoop(t *testing.T) {
	ctx := context.Background()
	for _, mesh := range []string{"", "ep=2"} {
		folder := t.TempDir()
		whole := newLearner(t, mesh, folder)
		var progress []report.Step
		whole.loop.Figures.Progress = func(s report.Step) error { progress = append(progress, s); return nil }
		b, err := whole.loop.Begin(ctx, whole.run, 1)
		require.NoError(t, err)
		require.Equal(t, train.Begun{}, b)
		e, err := whole.loop.Run(ctx, ctx, whole.run)
		require.NoError(t, err)
		require.Equal(t, 12, e.Steps)
		require.False(t, e.Stopped)
		require.Equal(t, 12, e.Last.Index)
		require.Equal(t, 12, e.History.Count)
		want := rows(t, folder)
		require.Len(t, want, 12)
		for i, s := range progress {
			pairs := int64(0)
			for _, n := range e.Last.Demand[0] {
				pairs += n
			}
			sum := 0.0
			for _, x := range s.Load {
				sum += x
			}
			if s.Index != i+1 || s.Total != 12 || s.Tokens != 32 || (s.HeldOut != 0) != (s.Index == 5 || s.Index == 10 || s.Index == 12) || s.Norm <= 0 || s.Drops != 0 || pairs != 64 || math.Abs(sum-1) > 1e-9 {
				t.Errorf("mesh %q: step %d reports %+v", mesh, i+1, s)
			}
		}
		if len(progress) != 12 || progress[11].Loss >= progress[0].Loss {
			t.Errorf("mesh %q: %d steps are reported, with losses from %v to %v", mesh, len(progress), progress[0].Loss, progress[len(progress)-1].Loss)
		}
		require.FileExists(t, filepath.Join(folder, "training.png"))

		cut := t.TempDir()
		first := newLearner(t, mesh, cut)
		stop, end := context.WithCancel(ctx)
		first.loop.After = func(_ context.Context, d *train.Done) error {
			if d.Index == 6 {
				end()
			}
			return nil
		}
		_, err = first.loop.Begin(ctx, first.run, 1)
		require.NoError(t, err)
		e, err = first.loop.Run(ctx, stop, first.run)
		require.NoError(t, err)
		require.Equal(t, 6, e.Steps)
		require.True(t, e.Stopped)

		second := newLearner(t, mesh, cut)
		if _, err := second.loop.Begin(ctx, second.run, 1); err == nil || !strings.Contains(err.Error(), "checkpoint of step 6; give -resume") {
			t.Errorf("without Resume: %v", err)
		}
		second.loop.Saves.Resume = true
		second.loop.Saves.Facts["-experts"] = "8"
		if _, err := second.loop.Begin(ctx, second.run, 1); err == nil || !strings.Contains(err.Error(), "-experts 8: the checkpoint ") {
			t.Errorf("another model: %v", err)
		}
		second.loop.Saves.Facts["-experts"], second.loop.Saves.Facts["-layers"], second.loop.Saves.Model = "8", "", []string{"-experts", "-batch"}
		second.loop.Saves.Facts["-batch"] = ""
		_, err = second.loop.Begin(ctx, second.run, 1)
		require.ErrorContains(t, err, `-batch "", -experts 8: the checkpoint `)
		require.ErrorContains(t, err, "is of a run with 1, 4; give these, or another folder")
		second.loop.Saves.Model = []string{"-experts"}
		second.loop.Saves.Facts = map[string]string{"-experts": "4", "-batch": "2", "-out": "there"}
		b, err = second.loop.Begin(ctx, second.run, 1)
		require.NoError(t, err)
		require.Equal(t, []string{"-batch 2 instead of 1"}, b.Changed)
		require.Equal(t, 6, b.Steps)
		e, err = second.loop.Run(ctx, ctx, second.run)
		require.NoError(t, err)
		require.Equal(t, 12, e.History.Count)
		require.Equal(t, want, rows(t, cut), "mesh %q", mesh)
		require.Equal(t, whole.state(t), second.state(t), "mesh %q", mesh)

		weights, err := second.run.Weights(ctx)
		require.NoError(t, err)
		for name, w := range weights {
			require.Equal(t, second.state(t)[name], string(w.Bytes()))
		}
		again := newLearner(t, mesh, cut)
		again.loop.Saves.Resume = true
		_, err = again.loop.Begin(ctx, again.run, 1)
		require.NoError(t, err)
		e, err = again.loop.Run(ctx, ctx, again.run)
		require.NoError(t, err)
		require.Nil(t, e.Last, "all steps were done")
		require.Equal(t, 12, e.Steps)
	}
}

// The checkpoint with the smallest loss on held-out text stays, of the steps that have both, wherever the run goes on.
func TestLoopKeepsBest(t *testing.T) {
	folder := t.TempDir()
	for _, end := range []int{8, 12} {
		l := newLearner(t, "", folder)
		l.loop.Steps, l.loop.Every, l.loop.Saves.Every, l.loop.Saves.Folder.Keep, l.loop.Saves.Resume = end, 2, 2, 1, true
		at, losses := 0, map[int][]float64{8: {3, 2, math.NaN(), 4}, 12: {2.5, 6}}[end]
		l.loop.HeldOut = func(context.Context) (float64, error) { at++; return losses[at-1], nil }
		_, err := l.loop.Begin(t.Context(), l.run, 1)
		require.NoError(t, err)
		_, err = l.loop.Run(t.Context(), t.Context(), l.run)
		require.NoError(t, err)
		steps, err := l.loop.Saves.Folder.Steps()
		require.NoError(t, err)
		require.Equal(t, []int{4, end}, steps)
		best, loss, err := l.loop.Saves.Folder.Best()
		require.NoError(t, err)
		require.Equal(t, 4, best)
		require.Equal(t, 2.0, loss)
	}
}

// A run that has its state from elsewhere saves, too.
func TestLoopSavesWithoutBegin(t *testing.T) {
	ctx := context.Background()
	l := newLearner(t, "ep=2", t.TempDir())
	require.NoError(t, l.run.Init(t.Context(), 1))
	_, err := l.loop.Run(ctx, ctx, l.run)
	require.NoError(t, err)
	steps, err := l.loop.Saves.Folder.Steps()
	require.NoError(t, err)
	require.Equal(t, []int{8, 12}, steps)
}

// A run ends with the step whose loss is not finite, which is reported, and with an error of a hook, of a batch or of the
// loop's own settings. The error is told before the picture is drawn.
func TestLoopErrors(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		change func(*train.Loop)
		want   string
		steps  int
	}{
		{func(l *train.Loop) { l.Rate = train.Constant(1e37) }, "training has diverged", 1},
		{func(l *train.Loop) {
			l.After = func(_ context.Context, d *train.Done) error {
				if d.Index == 2 {
					return errors.New("the hook's own")
				}
				return nil
			}
		}, "step 2: the hook's own", 2},
		{func(l *train.Loop) {
			l.Batch = func(int) (train.Parts, error) { return nil, errors.New("no more") }
		}, "step 1: batch: no more", 0},
		{func(l *train.Loop) { // the first checkpoint is written beside the steps that follow, and cannot be
			l.Rate = train.Constant(1e-3)
			path := l.Saves.Folder.Path
			l.After = func(_ context.Context, d *train.Done) error {
				if d.Index == 4 {
					return os.WriteFile(path, nil, 0o644)
				}
				time.Sleep(10 * time.Millisecond)
				return nil
			}
		}, "snapshot: step 4: ", -1},
		{func(l *train.Loop) {
			l.Batch = func(int) (train.Parts, error) { return nil, nil }
		}, "step 1: batch: no inputs, want those of the model", 0},
		{func(l *train.Loop) {
			require.NoError(t, os.Mkdir(filepath.Join(l.Figures.Folder, "training.png"), 0o755))
		}, "training.png is a folder, and the picture is written there; remove it, or give another folder", 0},
		{func(l *train.Loop) { l.Batch = nil }, "want Loop.Batch and Loop.Rate", 0},
		{func(l *train.Loop) { l.Steps = 0 }, "0 steps, held-out loss every 5", 0},
	} {
		l := newLearner(t, "", t.TempDir())
		_, err := l.loop.Begin(ctx, l.run, 1)
		require.NoError(t, err)
		c.change(&l.loop)
		var told error
		l.loop.Failed = func(err error) {
			told = err
			require.NoFileExists(t, filepath.Join(l.loop.Figures.Folder, "training.png"))
		}
		e, err := l.loop.Run(ctx, ctx, l.run)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
		if c.steps >= 0 && e.History.Count != c.steps && !(c.steps == 1 && e.History.Count <= 2) {
			t.Errorf("%s: %d steps in the history, want %d", c.want, e.History.Count, c.steps)
		}
		if c.steps < 0 && (e.Steps < 4) {
			t.Errorf("%d steps are done, want the run to end behind the save of step 4", e.Steps)
		}
		if c.steps > 0 {
			require.ErrorIs(t, err, told)
			require.FileExists(t, filepath.Join(l.loop.Figures.Folder, "training.png"))
		}
		var bad *train.DivergedError
		if got := errors.As(err, &bad); got != strings.Contains(c.want, "diverged") {
			t.Errorf("%v is of type %T", err, err)
		}
	}
}

// What cannot be written ends the run as stop does, and keeps nothing else from being written: the run has the state of the
// steps that it says.
func TestLoopUnwritten(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		change func(*train.Loop)
		want   string
		steps  int
		saved  []int
	}{
		{func(l *train.Loop) {
			l.Figures.Progress = func(s report.Step) error {
				if s.Index == 6 {
					return errors.New("nobody reads")
				}
				return nil
			}
		}, "6 of 12 steps are done: nobody reads", 6, []int{4, 6}},
		{func(l *train.Loop) {
			require.NoError(t, os.WriteFile(l.Saves.Folder.Path, nil, 0o644))
			l.Saves.Every = 12
		}, "12 of 12 steps are done: snapshot: step 12: ", 12, nil},
		{func(l *train.Loop) {
			require.NoError(t, os.WriteFile(l.Saves.Folder.Path, nil, 0o644))
			l.Steps, l.Saves.Every = 4, 2
		}, " of 4 steps are done: snapshot: step 2: ", 0, nil},
		{func(l *train.Loop) {
			l.After = func(_ context.Context, d *train.Done) error {
				return os.MkdirAll(filepath.Join(l.Figures.Folder, "training.png"), 0o755)
			}
		},
			"12 of 12 steps are done: ", 12, []int{4, 8, 12}},
	} {
		l := newLearner(t, "", t.TempDir())
		l.loop.Saves.Folder.Keep = 9
		_, err := l.loop.Begin(ctx, l.run, 1)
		require.NoError(t, err)
		c.change(&l.loop)
		l.loop.Failed = func(err error) { t.Errorf("%s: told that the run has failed: %v", c.want, err) }
		e, err := l.loop.Run(ctx, ctx, l.run)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, e.Unwritten, c.want)
		require.Equal(t, e.Steps < l.loop.Steps, e.Stopped, c.want)
		require.Equal(t, e.Steps, e.History.Count)
		if c.steps > 0 {
			require.Equal(t, c.steps, e.Steps, c.want)
		}
		if c.saved == nil {
			continue
		}
		steps, err := l.loop.Saves.Folder.Steps()
		require.NoError(t, err)
		require.Equal(t, c.saved, steps, c.want)
	}
}

// An evaluation has the parameters of the run, and no others.
func TestEvaluation(t *testing.T) {
	l := newLearner(t, "ep=2", t.TempDir())
	if _, err := l.held.Scalar(context.Background(), "loss", tokens(1)); err == nil || !strings.Contains(err.Error(), "there is no state") {
		t.Errorf("without a state: %v", err)
	}
	for _, width := range []int{8, 9} {
		_, err := l.run.Evaluation(t.Context(), "other", gomoe.Config{}, func(s *nn.Scope) []*graph.Value {
			x := s.Tracer().Input("x", graph.F32, 4, width)
			return []*graph.Value{nn.Linear{Out: 3}.Apply(s.In("mlp.gate", ""), x)}
		})
		want := fmt.Sprintf("train: other: parameter mlp.gate.weight f32[3,%d]: step has no such parameter", width)
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	require.NoError(t, l.run.Init(t.Context(), 1))
	if _, err := l.held.Scalar(context.Background(), "los", tokens(1)); err == nil || !strings.Contains(err.Error(), "no result of the evaluation is named los") {
		t.Errorf("another name: %v", err)
	}
}

// While the loop runs, Prometheus finds the last step where it listens, and nobody listens afterwards.
func TestLoopListen(t *testing.T) {
	ctx := context.Background()
	l := newLearner(t, "ep=2", t.TempDir())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.loop.Figures = train.Figures{Listen: listener}
	l.loop.Saves = train.Saves{}
	address, seen := "http://"+listener.Addr().String()+"/metrics", ""
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	l.loop.After = func(_ context.Context, d *train.Done) error {
		if d.Index != 5 {
			return nil
		}
		answer, err := client.Get(address)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		seen = string(text)
		return err
	}
	_, err = l.loop.Begin(ctx, l.run, 1)
	require.NoError(t, err)
	_, err = l.loop.Run(ctx, ctx, l.run)
	require.NoError(t, err)
	for _, want := range []string{"gomoe_train_step 5\n", "gomoe_train_steps 12\n", "gomoe_train_tokens_total 160\n", "gomoe_train_held_out_loss ", "gomoe_train_expert_load{expert=\"3\"} "} {
		if !strings.Contains(seen, want) {
			t.Errorf("%q is not served:\n%s", want, seen)
		}
	}
	again, err := net.Listen("tcp", listener.Addr().String())
	if err != nil {
		t.Errorf("the address is still in use: %v", err)
	} else {
		again.Close()
	}
}
