package picture

import (
	"bytes"
	"fmt"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/train/report"
)

// steps is a made-up run with a loss that falls and a load that evens out.
func steps(n, experts int) []report.Step {
	noise := rand.New(rand.NewPCG(1, 2))
	out := make([]report.Step, n)
	for i := range out {
		fall := 4 * math.Exp(-float64(i)/80)
		s := report.Step{Index: i + 1, Total: n, Loss: 1.6 + fall + 0.15*noise.NormFloat64(), Tokens: 4096, Elapsed: time.Second}
		if (i+1)%50 == 0 {
			s.HeldOut = 1.7 + fall
		}
		var sum float64
		for e := range experts {
			x := math.Exp(0.1*noise.NormFloat64() + math.Sin(3*float64(e))*fall/2)
			s.Load = append(s.Load, x)
			sum += x
		}
		for e := range experts {
			s.Load[e] /= sum
		}
		out[i] = s
	}
	return out
}

// colorsOf draws a figure twice, wants the same bytes, and counts its pixels of
// every colour left of the legends.
func colorsOf(t *testing.T, f report.Figure) map[color.NRGBA]int {
	t.Helper()
	var first, second bytes.Buffer
	require.NoError(t, Draw(&first, f))
	require.NoError(t, Draw(&second, f))
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two drawings of one figure differ")
	}
	img, err := png.Decode(&first)
	require.NoError(t, err)
	if b := img.Bounds(); b.Dx() != 1200 || b.Dy() != 900 {
		t.Errorf("%d by %d pixels, want 1200 by 900", b.Dx(), b.Dy())
	}
	counts := make(map[color.NRGBA]int)
	for y := range 900 {
		for x := range 990 {
			counts[color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)]++
		}
	}
	return counts
}

func TestFigure(t *testing.T) {
	nan := steps(100, 4)
	for i := 40; i < 60; i++ {
		nan[i].Loss, nan[i].Load[1] = math.NaN(), math.NaN()
	}
	nan[99].HeldOut = math.Inf(1)
	allNaN := steps(3, 4)
	for i := range allNaN {
		allNaN[i].Loss = math.NaN()
	}
	allNaN[1].Loss = math.Inf(-1)
	flat := steps(20, 1)
	for i := range flat {
		flat[i].Loss = 2
	}
	huge := steps(20, 2)
	huge[3].Loss, huge[4].Loss, huge[5].Loss = math.MaxFloat64, -math.MaxFloat64, math.MaxFloat32
	dead := steps(40, 20)
	for i := range dead {
		for e := range dead[i].Load {
			dead[i].Load[e] = 0
		}
		dead[i].Load[7] = 1
		dead[i].Load[8] = math.NaN()
	}
	late := steps(30, 4)
	for i := range late {
		late[i].Index += 1_000_000
	}
	winner := steps(60, 4)
	for i := range winner {
		winner[i].Load = []float64{0, 0, 1, 0}
	}
	all := func(experts int) []color.NRGBA {
		want := []color.NRGBA{rawColor, smoothColor, unigramColor}
		for e := range experts {
			want = append(want, expertStyle(e).Color.(color.NRGBA))
		}
		return want
	}
	for _, test := range []struct {
		name  string
		steps []report.Step
		want  []color.NRGBA // that the picture has
		never []color.NRGBA
	}{
		{"no steps", nil, []color.NRGBA{unigramColor}, []color.NRGBA{badColor, rawColor, smoothColor}},
		{"one step", steps(1, 8), all(4)[1:], []color.NRGBA{badColor}},
		{"one step of many experts", steps(1, 128), nil, nil},
		{"no experts", steps(10, 0), all(0), nil},
		{"eight experts", steps(400, 8), append(all(8), heldColor), []color.NRGBA{badColor}},
		{"sixteen experts", steps(400, 16), all(16), nil},
		{"sixty-four experts", steps(3000, 64), append(all(0), heldColor), nil},
		{"NaN at times", nan, append(all(4), badColor), nil},
		{"NaN always", allNaN, append(all(4)[2:], badColor), []color.NRGBA{rawColor, smoothColor}},
		{"flat", flat, all(0)[1:], nil},
		{"huge", huge, append(all(2), badColor), nil},
		{"dead", dead, append(all(0), color.NRGBA{0x1b, 0x4f, 0x9c, 0xff}, color.NRGBA{0xb2, 0x18, 0x2b, 0xff}), nil},
		{"one expert gets everything", winner, []color.NRGBA{expertStyle(2).Color.(color.NRGBA)}, nil},
		{"late", late, all(4), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := colorsOf(t, report.Figure{Title: test.name, Steps: test.steps, Unigram: 3.4})
			if len(got) < 50 {
				t.Errorf("%d colours, want many: text and lines are anti-aliased", len(got))
			}
			// Text and axes are black; a cell of an unknown load is not.
			if n := got[color.NRGBA{0, 0, 0, 0xff}]; n > 8000 {
				t.Errorf("%d black pixels, want few", n)
			}
			for _, c := range test.want {
				if got[c] < 8 {
					t.Errorf("%d pixels of %v, want it seen", got[c], c)
				}
			}
			for _, c := range test.never {
				if got[c] > 0 {
					t.Errorf("%d pixels of %v, want none", got[c], c)
				}
			}
		})
	}
}

func TestFigureWithoutUnigram(t *testing.T) {
	with := colorsOf(t, report.Figure{Steps: steps(50, 0), Unigram: 3})
	without := colorsOf(t, report.Figure{Steps: steps(50, 0)})
	if with[unigramColor] < 500 || without[unigramColor] > 100 {
		t.Errorf("%d pixels of the line's colour with it, %d without", with[unigramColor], without[unigramColor])
	}
}

// TestFigureWithoutNumbers has nothing to take the axis from.
func TestFigureWithoutNumbers(t *testing.T) {
	nan := steps(4, 0)
	for i := range nan {
		nan[i].Loss = math.NaN()
	}
	if n := colorsOf(t, report.Figure{Steps: nan})[badColor]; n < 40 {
		t.Errorf("%d pixels of four marks of a loss that is not finite", n)
	}
	if n := len(colorsOf(t, report.Figure{})); n < 50 {
		t.Errorf("the empty figure has %d colours", n)
	}
}

func TestFigureErrors(t *testing.T) {
	mixed := append(steps(2, 4), steps(1, 5)...)
	err := Draw(&bytes.Buffer{}, report.Figure{Steps: mixed})
	if err == nil || !strings.Contains(err.Error(), "5 experts, want 4") {
		t.Errorf("experts that differ: error %v", err)
	}
	if err := Draw(brokenWriter{os.ErrClosed}, report.Figure{}); err == nil {
		t.Error("a writer that fails: no error")
	}
}

func TestTicks(t *testing.T) {
	for _, test := range []struct {
		low, high float64
		least     float64
		want      string
	}{
		{0, 6, 0, "0 1 2 3 4 5 6"},
		{-0.5, 63.5, 1, "0 10 20 30 40 50 60"},
		{0.5, 1.5, 1, "1"},
		{1, 3.2, 0, "1.0 1.5 2.0 2.5 3.0"},
		{0, 1e9, 0, "0 2e+08 4e+08 6e+08 8e+08 1e+09"},
		{3.73, 3.75, 0, "3.730 3.735 3.740 3.745 3.750"},
		{-1e37, 3.6e38, 0, "0 1e+38 2e+38 3e+38"},
		{1, 1, 0, ""},
		{0, math.Inf(1), 0, ""},
		{math.NaN(), 1, 0, ""},
	} {
		var labels []string
		for _, tick := range (ticks{test.least}).Ticks(test.low, test.high) {
			labels = append(labels, tick.Label)
			if tick.Value < test.low-1e-9 || tick.Value > test.high {
				t.Errorf("%v..%v: tick at %v is outside", test.low, test.high, tick.Value)
			}
		}
		if got := strings.Join(labels, " "); got != test.want {
			t.Errorf("%v..%v: ticks %q, want %q", test.low, test.high, got, test.want)
		}
	}
	if n := len((ticks{}).Ticks(1e17, 1e17+32)); n > 20 {
		t.Errorf("%d ticks where doubles are sparse", n)
	}
}

func TestBucketsCoverAllSteps(t *testing.T) {
	for _, test := range [][2]int{{0, 5}, {1, 5}, {5, 5}, {6, 5}, {1000, 7}} {
		next := 0
		for _, b := range buckets(test[0], test[1]) {
			if b.from != next || b.to <= b.from {
				t.Errorf("%d steps in %d: bucket %v after %d", test[0], test[1], b, next)
			}
			next = b.to
		}
		if next != test[0] || len(buckets(test[0], test[1])) != min(test[0], test[1]) {
			t.Errorf("%d steps in %d: %v", test[0], test[1], fmt.Sprint(buckets(test[0], test[1])))
		}
	}
}

// What steps have measured beside losses and loads has panels of its own, which are drawn, and are not there otherwise.
func TestFigurePanels(t *testing.T) {
	all := steps(200, 4)
	for i := range all {
		all[i].LR, all[i].Norm, all[i].Drops = 1e-3, 2, i%3
		all[i].Compute, all[i].Exchange, all[i].Waiting = 700*time.Millisecond, 200*time.Millisecond, 50*time.Millisecond
	}
	panels, err := further(all)
	require.NoError(t, err)
	require.Len(t, panels, 4)
	panels, err = further(steps(200, 4))
	require.NoError(t, err)
	require.Empty(t, panels)
	var picture bytes.Buffer
	require.NoError(t, Draw(&picture, report.Figure{Title: "all", Steps: all}))
	img, err := png.Decode(&picture)
	require.NoError(t, err)
	if b := img.Bounds(); b.Dx() != 1200 || b.Dy() != 900+4*240 {
		t.Errorf("%d by %d pixels, want 1200 by 1860", b.Dx(), b.Dy())
	}
	counts := map[color.NRGBA]int{}
	for y := 900; y < img.Bounds().Dy(); y++ {
		for x := range 990 {
			counts[color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)]++
		}
	}
	for _, c := range []color.NRGBA{smoothColor, heldColor, badColor, unigramColor} {
		if counts[c] < 300 {
			t.Errorf("%d pixels of %v below the load, want a curve", counts[c], c)
		}
	}
}

// Drawing takes what report.PictureBytes says, within a fifth.
func TestPictureBytes(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.NoError(t, Draw(&bytes.Buffer{}, report.Figure{Title: "x", Steps: steps(1000, 8)}))
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got < report.PictureBytes*4/5 || got > report.PictureBytes*6/5 {
		t.Errorf("%d bytes, want about %d", got, report.PictureBytes)
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }
