package report

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clockwork is a clock that the test moves.
type clockwork struct{ now time.Time }

func (c *clockwork) Now() time.Time { return c.now }

// run reports steps that take a second each, with a pause of another after each.
func run(t *testing.T, p *Progress, c *clockwork, total int, change func(*Step)) {
	t.Helper()
	for i := 1; i <= total; i++ {
		c.now = c.now.Add(time.Second)
		s := Step{Index: i, Total: total, Loss: 5 - float64(i)/10, Tokens: 4096, Elapsed: time.Second,
			Load: []float64{0.5, 0.25, 0.125, 0.125}, Drops: i}
		if change != nil {
			change(&s)
		}
		require.NoError(t, p.Step(s))
		c.now = c.now.Add(time.Second)
	}
}

func wantLines(t *testing.T, got, want string) {
	t.Helper()
	want = strings.TrimPrefix(want, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestProgressLines(t *testing.T) {
	var out bytes.Buffer
	c := &clockwork{time.Unix(1000, 0)}
	run(t, NewProgress(&out, ProgressOptions{Now: c.Now}), c, 10, nil)
	// Two seconds a step: a line at the first step, when five seconds have
	// passed, and at the last. The first step's time to go is of steps alone.
	wantLines(t, out.String(), `
step  1/10  loss 4.9000 (4.9000)  4.1k tok/s  eta 9s  experts 50 25 12 12%  drops 1
step  4/10  loss 4.6000 (4.7436)  4.1k tok/s  eta 12s  experts 50 25 12 12%  drops 4
step  7/10  loss 4.3000 (4.5795)  4.1k tok/s  eta 6s  experts 50 25 12 12%  drops 7
step 10/10  loss 4.0000 (4.4079)  4.1k tok/s  experts 50 25 12 12%  drops 10
`)
}

func TestProgressEvery(t *testing.T) {
	var out bytes.Buffer
	c := &clockwork{time.Unix(1000, 0)}
	p := NewProgress(&out, ProgressOptions{Now: c.Now, Every: 40, Interval: -1})
	run(t, p, c, 90, func(s *Step) {
		s.Load, s.Drops = nil, 0
		if s.Index == 50 {
			s.HeldOut = 3.25
		}
	})
	require.NoError(t, p.Note("done"))
	require.NoError(t, p.Close())
	var steps []string
	for l := range strings.Lines(out.String()) {
		steps = append(steps, strings.Join(strings.Fields(l)[:min(2, len(strings.Fields(l)))], " "))
	}
	want := []string{"step 1/90", "step 40/90", "step 50/90", "step 80/90", "step 90/90", "done"}
	if got := strings.Join(steps, "; "); got != strings.Join(want, "; ") {
		t.Errorf("lines %q, want %q", got, want)
	}
	if !strings.Contains(out.String(), "step 50/90  loss 0.0000 (1.4832)  held-out 3.2500  4.1k tok/s  eta 1m20s  drops 0\n") {
		t.Errorf("no held-out loss, or wrong:\n%s", &out)
	}
}

func TestProgressNaN(t *testing.T) {
	var out bytes.Buffer
	c := &clockwork{time.Unix(1000, 0)}
	p := NewProgress(&out, ProgressOptions{Now: c.Now, Interval: -1})
	run(t, p, c, 9, func(s *Step) {
		s.Load, s.Elapsed = nil, 0
		if s.Index == 1 || s.Index >= 4 && s.Index <= 6 {
			s.Loss = math.NaN()
		}
		if s.Index == 9 {
			s.Loss = math.Inf(1)
		}
	})
	// The first one is reported at once, the others are not worth a line each;
	// the moving mean leaves them out.
	wantLines(t, out.String(), `
step 1/9  loss NaN (NaN)  ? tok/s  eta 0s  drops 1
step 9/9  loss +Inf (4.4859)  ? tok/s  drops 9
`)
	out.Reset()
	p = NewProgress(&out, ProgressOptions{Now: c.Now, Interval: -1})
	run(t, p, c, 9, func(s *Step) {
		if s.Index == 4 || s.Index == 5 {
			s.Loss = math.NaN()
		}
	})
	if n := strings.Count(out.String(), "NaN"); n != 1 || !strings.Contains(out.String(), "step 4/9  loss NaN") {
		t.Errorf("want a line for the first NaN only:\n%s", &out)
	}
}

func TestProgressOneStepAndResumed(t *testing.T) {
	c := &clockwork{time.Unix(1000, 0)}
	var out bytes.Buffer
	run(t, NewProgress(&out, ProgressOptions{Now: c.Now}), c, 1, nil)
	wantLines(t, out.String(), "step 1/1  loss 4.9000 (4.9000)  4.1k tok/s  experts 50 25 12 12%  drops 1\n")

	out.Reset()
	p := NewProgress(&out, ProgressOptions{Now: c.Now, Every: 1})
	for i := 101; i <= 103; i++ { // the time to go counts this process's steps
		c.now = c.now.Add(2 * time.Second)
		require.NoError(t, p.Step(Step{Index: i, Total: 203, Loss: 1, Tokens: 1, Elapsed: time.Second}))
	}
	if !strings.Contains(out.String(), "step 103/203  loss 1.0000 (1.0000)  1 tok/s  eta 3m20s") {
		t.Errorf("resumed at 101 of 203:\n%s", &out)
	}
}

// TestProgressFileIsNotATerminal: a file gets lines.
func TestProgressFileIsNotATerminal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.Create(path)
	require.NoError(t, err)
	c := &clockwork{time.Unix(1000, 0)}
	p := NewProgress(f, ProgressOptions{Now: c.Now})
	run(t, p, c, 2, nil)
	require.NoError(t, p.Close())
	require.NoError(t, f.Close())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	if n := bytes.Count(data, []byte("\n")); n != 2 || bytes.ContainsAny(data, "\r\x1b") {
		t.Errorf("want two plain lines, got %q", data)
	}
}

func TestProgressBar(t *testing.T) {
	var out bytes.Buffer
	c := &clockwork{time.Unix(1000, 0)}
	p := NewProgress(&out, ProgressOptions{Now: c.Now})
	width := 60
	p.width = func() int { return width }
	run(t, p, c, 10, func(s *Step) {
		if s.Index == 5 {
			s.HeldOut = 4.75
		}
	})
	require.NoError(t, p.Close())
	require.NoError(t, p.Close()) // once is enough, twice does no harm
	screen := out.String()
	if !strings.HasSuffix(screen, "\n") || strings.HasSuffix(screen, "\n\n") {
		t.Errorf("the bar's line does not end with one line end: %q", screen)
	}
	if !strings.Contains(screen, "\r\x1b[2Kstep  5/10  loss 4.5000 (4.6898)  held-out 4.7500  4.1k tok/s  eta 10s  experts 50 25 12 12%  drops 5\n") {
		t.Errorf("the held-out loss does not stay on screen: %q", screen)
	}
	// What a terminal shows of the last line.
	lines := strings.Split(strings.TrimSuffix(screen, "\n"), "\n")
	drawn := strings.Split(lines[len(lines)-1], "\r")
	last := strings.TrimSuffix(drawn[len(drawn)-1], "\x1b[0K")
	if !strings.Contains(last, "100%") || !strings.Contains(last, "10/10 loss 4.0") {
		t.Errorf("the bar ends as %q", last)
	}
	for _, d := range drawn {
		if d = strings.TrimSuffix(d, "\x1b[0K"); len(d) > width {
			t.Errorf("%d cells on a terminal of %d: %q", len(d), width, d)
		}
	}
	for _, narrow := range []int{0, 1, 26, 27} {
		width = narrow
		q := NewProgress(&out, ProgressOptions{Now: c.Now})
		q.width = p.width
		run(t, q, c, 2, nil) // neither fails nor panics
	}
}

func TestProgressNoteAfterBar(t *testing.T) {
	var out bytes.Buffer
	c := &clockwork{time.Unix(1000, 0)}
	p := NewProgress(&out, ProgressOptions{Now: c.Now})
	p.width = func() int { return 80 }
	run(t, p, c, 2, nil)
	require.NoError(t, p.Note("written"))
	require.NoError(t, p.Close())
	if !strings.HasSuffix(out.String(), "\x1b[0K\nwritten\n") { // the full bar stays
		t.Errorf("a note after the last step: %q", &out)
	}
}

func TestProgressBarThrottles(t *testing.T) {
	var out bytes.Buffer
	c := &clockwork{time.Unix(1000, 0)}
	p := NewProgress(&out, ProgressOptions{Now: c.Now})
	p.width = func() int { return 80 }
	for i := 1; i < 1000; i++ {
		c.now = c.now.Add(time.Millisecond)
		require.NoError(t, p.Step(Step{Index: i, Total: 2000, Loss: 1}))
	}
	if n := strings.Count(out.String(), "\r"); n < 5 || n > 40 {
		t.Errorf("%d drawings in a second, want about 10 or 20", n)
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestProgressWriterFails(t *testing.T) {
	why := errors.New("disk full")
	for _, terminal := range []bool{false, true} {
		p := NewProgress(brokenWriter{why}, ProgressOptions{})
		if terminal {
			p.width = func() int { return 80 }
		}
		for i := 1; i <= 3; i++ {
			if err := p.Step(Step{Index: i, Total: 3}); !errors.Is(err, why) {
				t.Errorf("terminal %v, step %d: error %v, want %v", terminal, i, err, why)
			}
		}
		require.NoError(t, p.Close(), "it was returned before")
	}
	var out bytes.Buffer
	p := NewProgress(&out, ProgressOptions{})
	p.width = func() int { return 80 }
	require.NoError(t, p.Step(Step{Index: 1, Total: 3}))
	p.out = brokenWriter{why}
	require.ErrorIs(t, p.Close(), why)
	require.NoError(t, p.Close())
}

// On every common width the bar shows the place, the loss, the throughput, the
// time left, the experts and the drops.
func TestFit(t *testing.T) {
	s := Step{Index: 123, Total: 300, Loss: 2.12345, HeldOut: 2.5, Load: []float64{.12, .13, .07, .31, .11, .02, .12, .12}, Drops: 1234}
	for _, c := range []struct {
		width int
		want  string
	}{
		{200, "step 123/300 loss 2.1235 (2.2000) held-out 2.5000 4.56k tok/s eta 1m23s experts 12 13 7 31 11 2 12 12% drops 1234"},
		{113, "step 123/300 loss 2.1235 (2.2000) held-out 2.5000 4.56k tok/s eta 1m23s experts 12 13 7 31 11 2 12 12% drops 1234"},
		{112, "step 123/300 loss 2.1235 (2.2000) 4.56k tok/s eta 1m23s experts 12 13 7 31 11 2 12 12% drops 1234"},
		{96, "123/300 loss 2.1235 4.56k tok/s eta 1m23s experts 12 13 7 31 11 2 12 12% drops 1234"},
		{64, "123/300 loss 2.1235 4.56k tok/s eta 1m23s load 2..31% drops 1234"},
		{63, "123/300 loss 2.123 4.56k/s eta 1m23s load 2..31% drops 1234"},
		{20, "123/300 loss 2.123 4"},
		{-3, ""},
	} {
		if got := fit(s, 2.2, 4560, 83*time.Second, c.width); got != c.want {
			t.Errorf("%d cells: got %q, want %q", c.width, got, c.want)
		}
	}
	s = Step{Index: 3, Total: 3, Loss: 2}
	if got, want := fit(s, 2, 10, 0, 30), "3/3 loss 2.000 10/s drops 0"; got != want {
		t.Errorf("the last step without experts: got %q, want %q", got, want)
	}
}

func TestLineParts(t *testing.T) {
	many := make([]float64, 20)
	for i := range many {
		many[i] = 0.05
	}
	many[3], many[4] = 0, 0.1
	for got, want := range map[string]string{
		loads(many):                          "0.0..10.0% (fair 5.0%)",
		loads([]float64{1, 0}):               "100 0%",
		loads([]float64{math.NaN(), 0.5}):    "NaN 50%",
		count(0.5):                           "0.5",
		count(999.4):                         "999",
		count(999.6):                         "1k",
		count(12345):                         "12.3k",
		count(4.56e6):                        "4.56M",
		count(2e9):                           "2G",
		count(math.Inf(1)):                   "?",
		clock(0):                             "0s",
		clock(59499 * time.Millisecond):      "59s",
		clock(59500 * time.Millisecond):      "1m00s",
		clock(3*time.Minute + 5*time.Second): "3m05s",
		clock(2*time.Hour + 7*time.Minute + 29e9): "2h07m",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
