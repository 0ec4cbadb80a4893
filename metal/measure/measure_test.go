package measure

import (
	"bytes"
	"context"
	"errors"
	"image/png"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/metal"
	"github.com/gomoe/gomoe/metal/internal/clangtest"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/runtime"
)

// emulated returns the GPU that tests have.
func emulated(t *testing.T) *metal.Device {
	d, err := metal.Emulated(t.Context(), metal.Emulation{})
	clangtest.Needed(t, err)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// planFor returns the case's plan for a target.
func (c Case) planFor(t lowering.Target) (*lowering.Plan, error) {
	cfg := c.config
	cfg.Target = t
	return gomoe.Compile(context.Background(), c.Program, cfg)
}

// Every kernel has cases, and the plans of all of them have instructions that it serves, at
// the sizes of a model, too.
func TestCases(t *testing.T) {
	for name, z := range map[string]Sizes{"model": Model(), "small": Small()} {
		cases, err := Cases(z)
		require.NoError(t, err)
		found := map[string]bool{}
		for _, c := range cases {
			plan, err := c.planFor(kernels.Metal{})
			require.NoError(t, err)
			if _, _, err := c.tasks(plan, false); err != nil {
				t.Errorf("%s: %s: %v", name, c.Name, err)
			}
			for _, k := range c.Kernels {
				found[k] = true
			}
		}
		for _, k := range kernels.All() {
			if !found[k.Name] {
				t.Errorf("%s: kernel %s has no case", name, k.Name)
			}
		}
	}
	some, err := Cases(Small(), "rope", "attention_grad")
	require.NoError(t, err)
	var names []string
	for _, c := range some {
		names = append(names, c.Name+" "+strings.Join(c.Kernels, " "))
	}
	if got, want := strings.Join(names, "; "), "rope rope; rope, decode rope; attention attention_grad; attention bf16 attention_grad"; got != want {
		t.Errorf("cases of two kernels are %q, want %q", got, want)
	}
	if _, err := Cases(Small(), "rope", "dance"); err == nil || !strings.Contains(err.Error(), `no kernel "dance"`) {
		t.Errorf("cases of no kernel: %v", err)
	}
}

// All kernels agree with the host, and every row has times.
func TestRun(t *testing.T) {
	d := emulated(t)
	cases, err := Cases(Small())
	require.NoError(t, err)
	var rows []Row
	require.NoError(t, Run(t.Context(), d, cases, Options{Runs: 1}, func(r Row) { rows = append(rows, r) }))
	differ := 0
	for _, r := range rows {
		if r.Wrong() || r.Host <= 0 || r.GPU <= 0 || r.Wall < r.GPU || r.Bytes <= 0 || r.Shape == "" {
			t.Errorf("%+v", r)
		}
		if r.Difference > 0 {
			differ++
		}
		if products := regexp.MustCompile("^(dot|grouped|scaled|affine|attention)").MatchString(r.Instruction); products != (r.FLOPs > 0) {
			t.Errorf("%s has %d operations", r.Instruction, r.FLOPs)
		}
	}
	if len(rows) < len(cases) || differ == 0 {
		t.Errorf("%d rows of %d cases, %d of which differ from the host's; want some that do, as functions are approximated", len(rows), len(cases), differ)
	}
	var plot bytes.Buffer
	require.NoError(t, Plot(&plot, rows))
	_, err = png.Decode(&plot)
	require.NoError(t, err)
}

// spoiled is a device whose results are spoiled when they are waited for.
type spoiled struct {
	runtime.Device
	spoil func(result, before array.Array)
	fail  error // of waiting
}

func (d spoiled) Open(ctx context.Context, p *lowering.Plan, rank int) (runtime.Queue, error) {
	q, err := d.Device.Open(ctx, p, rank)
	return &spoiledQueue{Queue: q, spoiled: d, plan: p}, err
}

type spoiledQueue struct {
	runtime.Queue
	spoiled
	plan   *lowering.Plan
	result array.Array
	before array.Array // what it was
}

func (q *spoiledQueue) Open(ctx context.Context, p *lowering.Plan, rank int) (runtime.Queue, error) {
	return nil, errors.ErrUnsupported
}

func (q *spoiledQueue) Encode(i int, bufs []array.Array) error {
	q.result = bufs[q.plan.Instrs[i].Out[0]]
	q.before = q.result.Clone()
	return q.Queue.Encode(i, bufs)
}

func (q *spoiledQueue) Wait(ctx context.Context, ticket uint64) error {
	if err := q.Queue.Wait(ctx, ticket); err != nil || q.fail != nil {
		return errors.Join(err, q.fail)
	}
	q.spoil(q.result, q.before)
	return nil
}

// A result that is a little off is wrong, and so is one that is no number, one of the row
// before, and one that nobody has written.
func TestRunWrong(t *testing.T) {
	d := emulated(t)
	set := func(i int, x float32) func(_, _ array.Array) {
		return func(a, _ array.Array) { array.Data[float32](a)[i] = x }
	}
	zeros := func(a, before array.Array) {
		for i, x := range array.Data[float32](a) {
			if x == 0 {
				copy(a.Bytes()[4*i:4*i+4], before.Bytes()[4*i:])
			}
		}
	}
	for _, c := range []struct {
		name   string
		kernel string
		spoil  func(result, before array.Array)
		wrong  bool
		text   string
	}{
		{"right", "rms_norm", func(_, _ array.Array) {}, false, ""},
		{"a little", "rms_norm", func(a, _ array.Array) { array.Data[float32](a)[3] += 1e-3 }, true, "1.0e-03"},
		{"NaN", "rms_norm", set(5, float32(math.NaN())), true, "inf"},
		{"zeros are not written", "scatter", zeros, true, "inf"},
		{"rows of another", "rms_norm", func(a, _ array.Array) { x := array.Data[float32](a); copy(x[len(x)/2:], x) }, true, ""},
	} {
		cases, err := Cases(Small(), c.kernel)
		require.NoError(t, err)
		var rows []Row
		require.NoError(t, Run(t.Context(), spoiled{Device: d, spoil: c.spoil}, cases[:1], Options{Runs: 1}, func(r Row) { rows = append(rows, r) }))
		r := rows[0]
		if r.Wrong() != c.wrong || strings.Contains(r.String(), "WRONG") != c.wrong || !strings.Contains(r.String(), c.text) {
			t.Errorf("%s: %+v\n%s", c.name, r, r)
		}
	}
}

// An error says which case and instruction it is of.
func TestRunFails(t *testing.T) {
	d := emulated(t)
	cases, err := Cases(Small(), "rope")
	require.NoError(t, err)
	err = Run(t.Context(), spoiled{Device: d, fail: errors.New("the GPU has gone")}, cases, Options{}, func(r Row) { t.Errorf("a row: %v", r) })
	if err == nil || !regexp.MustCompile(`^measure: rope: instruction \d, rope: the GPU has gone$`).MatchString(err.Error()) {
		t.Errorf("the error is %v, want one of instruction rope", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, d, cases, Options{}, func(Row) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error of a run that ended before is %v", err)
	}
}
