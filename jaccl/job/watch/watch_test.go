package watch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/link"
)

// start returns the watches of n ranks of this process.
func start(t *testing.T, n int, o Options) []*Watch {
	t.Helper()
	ws, errs := make([]*Watch, n), make([]error, n)
	var wg sync.WaitGroup
	for i, s := range jaccltest.Sites(n) {
		wg.Go(func() { ws[i], errs[i] = Start(t.Context(), s, o) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	t.Cleanup(func() {
		for range 2 {
			for _, w := range ws {
				require.NoError(t, w.Close())
			}
		}
	})
	return ws
}

// down waits until a watch knows the first failure, and returns it.
func down(t *testing.T, w link.Watch) link.Notice {
	t.Helper()
	select {
	case <-w.Down():
	case <-time.After(2 * time.Minute):
		t.Fatal("no failure is known")
	}
	n, ok := w.First()
	if !ok {
		t.Fatal("down without a first failure")
	}
	return n
}

// up checks that no failure becomes known for a while.
func up(t *testing.T, w *Watch, d time.Duration) {
	t.Helper()
	select {
	case <-w.Down():
		n, _ := w.First()
		t.Errorf("a failure: %+v, want none", n)
	case <-time.After(d):
	}
}

// until waits for a condition.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: it did not come to that", what)
		}
	}
}

// All ranks hear what one rank announces, with everything that is in the notice, and
// they hear of no other failure.
func TestAnnounce(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		ws := start(t, n, Options{})
		want := link.Notice{
			From: n - 1, Blame: []int{n - 1, 0}, Kind: link.KindMismatch, Text: "rank 4 calls all_sum",
			Call: collective.Call{Op: "all_sum", Seq: -3, DType: graph.BF16, Bytes: 1 << 40, Pos: graph.Pos{File: "moe.go", Line: 12, Scope: "layers.3"}},
		}
		said := want
		said.From = 77 // the watch replaces it
		ws[n-1].Announce(said)
		for i, w := range ws {
			if got := down(t, w); !reflect.DeepEqual(got, want) {
				t.Errorf("rank %d of %d: %+v, want %+v", i, n, got, want)
			}
		}
		ws[0].Announce(link.Notice{Kind: link.KindLost, Text: "later"})
		time.Sleep(2 * defaultSettle)
		for i, w := range ws {
			if got, _ := w.First(); got.Text != want.Text {
				t.Errorf("rank %d of %d: a later failure took its place: %+v", i, n, got)
			}
		}
	}
}

// Before anything is announced nothing is known.
func TestNothing(t *testing.T) {
	ws := start(t, 3, Options{Heartbeat: 10 * time.Millisecond, Silence: 2 * time.Minute})
	up(t, ws[0], 100*time.Millisecond)
	if n, ok := ws[1].First(); ok || ws[1].Left(0) || ws[1].Left(1) {
		t.Errorf("first %+v %v, left %v", n, ok, ws[1].Left(0))
	}
	if ws[1].Host(2) != "host2" || ws[1].Host(3) != "" || ws[1].Host(-1) != "" || ws[1].Left(9) {
		t.Errorf("host of rank 2 is %q", ws[1].Host(2))
	}
}

// All ranks announce failures at the same time, each of another kind. All decide on the
// same one: the one that follows from no other.
func TestAtOnce(t *testing.T) {
	kinds := []link.Kind{link.KindDeadline, link.KindClosed, link.KindCause, link.KindMismatch, link.KindArgument, link.KindLost, link.KindLost}
	t.Parallel()
	for _, last := range []int{1, 2, 4, len(kinds)} {
		t.Run(fmt.Sprint(last), func(t *testing.T) {
			t.Parallel()
			ws := start(t, len(kinds), Options{Settle: 4 * time.Second})
			var wg sync.WaitGroup
			for i, w := range ws[:last] {
				wg.Go(func() { w.Announce(link.Notice{Kind: kinds[i], Text: fmt.Sprint("of rank ", i)}) })
			}
			wg.Wait()
			texts := map[string]bool{}
			for _, w := range ws {
				texts[down(t, w).Text] = true
			}
			if len(texts) != 1 {
				t.Errorf("of %d failures at once, ranks came to %v", last, texts)
			}
		})
	}
	// The decision does not depend on which rank was first.
	for a := range kinds[:6] {
		for b := range a {
			lo, hi := link.Notice{From: 1, Kind: kinds[a]}, link.Notice{From: 0, Kind: kinds[b]}
			if !before(lo, hi) || before(hi, lo) {
				t.Errorf("kind %d is not before %d", kinds[a], kinds[b])
			}
		}
	}
	if lo, hi := (link.Notice{From: 1}), (link.Notice{From: 2}); !before(lo, hi) || before(hi, lo) || before(lo, lo) {
		t.Error("of one kind, the lowest rank is not first")
	}
}

// Until the failure has settled, notices that come before others replace them, and are
// passed on to ranks that have no connection to the rank that announced them.
func TestSettling(t *testing.T) {
	t.Parallel()
	ws := start(t, 3, Options{Settle: 4 * time.Second})
	// Ranks 0 and 2 do not hear each other any more.
	ws[0].mu.Lock()
	ws[0].peers[2].gone = true
	ws[0].mu.Unlock()
	ws[0].Announce(link.Notice{Kind: link.KindDeadline, Text: "late"})
	until(t, "rank 1 hears of it", func() bool { ws[1].mu.Lock(); defer ws[1].mu.Unlock(); return ws[1].best != nil })
	if _, ok := ws[1].First(); ok {
		t.Error("rank 1 has not waited for others")
	}
	until(t, "rank 2 hears of it from rank 1", func() bool { ws[2].mu.Lock(); defer ws[2].mu.Unlock(); return ws[2].best != nil })
	for i, w := range ws {
		if n := down(t, w); n.Text != "late" || n.From != 0 {
			t.Errorf("rank %d: %+v", i, n)
		}
	}
}

// It is no failure if a rank leaves and ends, even for ranks that leave later.
func TestLeave(t *testing.T) {
	t.Parallel()
	ws := start(t, 3, Options{Heartbeat: 10 * time.Millisecond, Silence: 4 * time.Second})
	ws[1].Leave()
	ws[1].Leave()
	until(t, "rank 1 left", func() bool { return ws[0].Left(1) && ws[2].Left(1) && ws[1].Left(1) })
	require.NoError(t, ws[1].Close())
	require.NoError(t, ws[2].Close()) // Close calls Leave
	until(t, "rank 2 left", func() bool { return ws[0].Left(2) })
	up(t, ws[0], 5*time.Second)                // longer than they may be silent
	ws[0].Announce(link.Notice{Text: "alone"}) // nobody is there to hear
	if n := down(t, ws[0]); n.Text != "alone" {
		t.Errorf("%+v", n)
	}
}

// Other ranks hear what was announced right before Close.
func TestLastWords(t *testing.T) {
	ws := start(t, 4, Options{})
	ws[2].Announce(link.Notice{Kind: link.KindCause, Text: "my own fault"})
	require.NoError(t, ws[2].Close())
	for i, w := range ws {
		if n := down(t, w); n.Text != "my own fault" || n.From != 2 {
			t.Errorf("rank %d: %+v", i, n)
		}
	}
}

// A rank is lost for all if its connection ends, or if it sends something that cannot be
// read, before the rank has said that it leaves.
func TestConnection(t *testing.T) {
	for want, f := range map[string]func(c net.Conn){
		"rank 1 (host1) ended without a word":                        func(c net.Conn) { c.Close() },
		"rank 1 (host1) cannot be understood: frame: not a frame of": func(c net.Conn) { c.Write([]byte("GET / HTTP/1.1\r\n\r\n and so on and on")) },
	} {
		ws := start(t, 3, Options{})
		ws[1].peers[0].mu.Lock() // not while a frame is written
		f(ws[1].peers[0].conn)
		ws[1].peers[0].mu.Unlock()
		for _, w := range []*Watch{ws[0], ws[2]} {
			n := down(t, w)
			if n.Kind != link.KindLost || n.From == 1 && n.Blame[0] == 0 {
				// rank 1 sees its own end of a closed connection; one of the two counts
				continue
			}
			if !strings.HasPrefix(n.Text, want) || !slices.Equal(n.Blame, []int{1}) {
				t.Errorf("%+v, want %q", n, want)
			}
		}
	}
}

// A rank that was itself stopped, or whose machine slept, takes no rank for silent: it
// could not hear the others meanwhile.
func TestAsleep(t *testing.T) {
	w := start(t, 2, Options{Heartbeat: time.Hour, Silence: 4 * time.Hour})[0]
	now := time.Now()
	w.beat(now, now.Add(20*time.Hour))
	if _, ok := w.First(); ok || w.best != nil {
		t.Errorf("after its own sleep it finds %+v", w.best)
	}
	w.beat(now.Add(24*time.Hour), now.Add(25*time.Hour))
	if n := down(t, w); !strings.HasPrefix(n.Text, "rank 1 (host1) does not answer") {
		t.Errorf("%+v", n)
	}
}

// A rank that does not answer is not asked again and again: that would fill its buffers.
func TestUnanswered(t *testing.T) {
	p := newPeer(1, nil)
	for range 10 * unanswered {
		p.ask()
	}
	if len(p.queue) != unanswered {
		t.Errorf("%d questions without an answer, want %d", len(p.queue), unanswered)
	}
}

func TestDump(t *testing.T) {
	asked := make(chan int, 10)
	ws := start(t, 3, Options{Dump: func(from int) { asked <- from }})
	ws[1].RequestDump()
	for range 2 {
		select {
		case from := <-asked:
			if from != 1 {
				t.Errorf("rank %d has asked, want 1", from)
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("nobody was asked")
		}
	}
	up(t, ws[0], 10*time.Millisecond)
}

// A rank learns where the other ranks are, of those that can answer, whatever they do.
func TestAsk(t *testing.T) {
	ws := start(t, 4, Options{})
	want := map[int]link.Waiting{0: {Text: "it waits in x", For: []int{1, 2}}, 2: {}}
	for r, a := range want {
		ws[r].Answer(func() link.Waiting { return a })
	}
	ws[3].Leave()
	until(t, "rank 3 has left", func() bool { return ws[1].Left(3) })
	for range 2 {
		began := time.Now()
		got := ws[1].Ask(time.Minute)
		delete(got, 3) // rank 3 may have answered nevertheless
		if !reflect.DeepEqual(got, want) || time.Since(began) > 30*time.Second {
			t.Errorf("%+v after %v, want %+v", got, time.Since(began), want)
		}
	}
	hold := make(chan struct{})
	ws[0].mu.Lock() // as if rank 0 were stopped
	go func() {
		defer ws[0].mu.Unlock()
		<-hold
	}()
	got := ws[1].Ask(200 * time.Millisecond)
	close(hold)
	if _, ok := got[0]; ok || got[2].Text != "" {
		t.Errorf("%+v, want no answer of rank 0", got)
	}
	up(t, ws[1], 10*time.Millisecond)
}

// What a rank tells of the groups that it has closed is heard in order, also by a rank that
// listens late, and has no other effect.
func TestPartings(t *testing.T) {
	ws := start(t, 3, Options{})
	type heard struct {
		from int
		p    link.Parting
	}
	ws[1].Tell(2, link.Parting{Group: 1 << 63, Begun: 3})
	until(t, "the first has come", func() bool { ws[2].mu.Lock(); defer ws[2].mu.Unlock(); return len(ws[2].early) == 1 })
	all := make(chan heard, 8)
	ws[2].Hear(func(from int, p link.Parting) { all <- heard{from, p} })
	ws[1].Tell(2, link.Parting{Group: 7})
	ws[1].Tell(0, link.Parting{Group: 8}) // who does not listen
	for _, nobody := range []int{-1, 1, 3} {
		ws[1].Tell(nobody, link.Parting{})
	}
	for _, want := range []heard{{1, link.Parting{Group: 1 << 63, Begun: 3}}, {1, link.Parting{Group: 7}}} {
		select {
		case got := <-all:
			if got != want {
				t.Errorf("heard %+v, want %+v", got, want)
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("%+v was not heard", want)
		}
	}
	up(t, ws[0], 50*time.Millisecond)
	if len(all) > 0 {
		t.Errorf("heard %+v more", <-all)
	}
}

// The ranks of a process have one clock.
func TestOffset(t *testing.T) {
	ws := start(t, 3, Options{Heartbeat: 5 * time.Millisecond})
	for i, w := range ws {
		for r := range ws {
			offset, uncertainty := w.Offset(r)
			if i == r && (offset != 0 || uncertainty != 0) {
				t.Errorf("rank %d differs from itself by %v", i, offset)
			}
			if offset.Abs() > uncertainty || uncertainty > time.Second {
				t.Errorf("rank %d: the clock of rank %d differs by %v, at most %v wrong", i, r, offset, uncertainty)
			}
		}
	}
	if o, u := ws[0].Offset(5); o != 0 || u != 0 {
		t.Errorf("offset of no rank: %v %v", o, u)
	}
}

func TestClock(t *testing.T) {
	var c clock
	if o, u := c.estimate(); o != 0 || u != math.MaxInt64 {
		t.Errorf("without answers: %v %v", o, u)
	}
	const ahead = 3_000_000_000_000 // the peer's clock
	answer := func(there, away, back int64) {
		c.sample(100, 100+there+ahead, 100+there+away+ahead, 100+there+away+back)
	}
	answer(500, 1000, 900)
	if o, u := c.estimate(); o != ahead-200 || u != 701 {
		t.Errorf("one answer: %d %d", o, u)
	}
	answer(50, 90_000, 70) // the fastest trip, whatever the peer did meanwhile
	for range window - 2 {
		answer(5000, 10, 0)
	}
	if o, u := c.estimate(); o != ahead-10 || u != 61 {
		t.Errorf("the best of %d: %d %d", window, o, u)
	}
	answer(5000, 0, 5000)
	answer(5000, 0, 5000) // the best answer is too long ago to count
	if o, u := c.estimate(); o != ahead+2500 || u != 2501 {
		t.Errorf("later: %d %d", o, u)
	}
	n := c.n
	if c.sample(100, 50, 40, 110) || c.sample(100, 50, 60, 90) || c.sample(100, 50, 100, 120) || c.n != n {
		t.Error("impossible times were taken")
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{Heartbeat: -1}, {Silence: -1}, {Settle: -1}, {Heartbeat: time.Second, Silence: time.Second}} {
		if w, err := Start(t.Context(), jaccltest.Sites(1)[0], o); err == nil {
			w.Close()
			t.Errorf("%+v is not refused", o)
		}
	}
}

// Start does not wait longer than its context for a rank that does not come.
func TestStartContext(t *testing.T) {
	sites := jaccltest.Sites(2)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, sites[0], Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	// A rank that connects and says nothing.
	sites = jaccltest.Sites(2)
	go sites[1].Dial(t.Context(), "watch")
	ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := Start(ctx, sites[0], Options{}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "rank 1 (host1) has not answered yet") {
		t.Errorf("%v", err)
	}
}

func TestNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	ws := start(t, 5, Options{})
	ws[3].Announce(link.Notice{})
	var wg sync.WaitGroup
	for _, w := range ws {
		wg.Go(func() { w.Close() })
	}
	wg.Wait()
	until(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}

// FuzzNotice: a notice that is decoded is encoded to the same bytes, and nothing panics.
func FuzzNotice(f *testing.F) {
	f.Add(encodeNotice(link.Notice{From: 1, Blame: []int{2}, Kind: link.KindLost, Text: "x", Call: collective.Call{Op: "all_sum", Seq: -1}}))
	f.Add(encodeParting(link.Parting{Group: 1 << 63, Begun: 2}))
	f.Add(encodeWaiting(link.Waiting{Text: "it waits in x", For: []int{2, 3}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		decodeTimes(b, 3)
		if a, err := decodeParting(b); err == nil {
			if again := encodeParting(a); string(again) != string(b) {
				t.Errorf("%x was read as %+v, which is %x", b, a, again)
			}
		}
		if a, err := decodeWaiting(b, 4); err == nil {
			if again := encodeWaiting(a); string(again) != string(b) || len(a.For) > 4 {
				t.Errorf("%x was read as %+v, which is %x", b, a, again)
			}
		}
		n, err := decodeNotice(b, 4)
		if err != nil {
			return
		}
		if n.From < 0 || n.From > 3 || len(n.Blame) > 4 || n.Kind > link.KindLost {
			t.Errorf("%+v", n)
		}
		if again := encodeNotice(n); string(again) != string(b) {
			t.Errorf("%x was read as %+v, which is %x", b, n, again)
		}
	})
}
