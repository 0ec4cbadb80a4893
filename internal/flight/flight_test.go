package flight_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/flight"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
)

func call(op string, seq int) collective.Call {
	return collective.Call{Op: op, Seq: seq, DType: graph.F32, Pos: graph.Pos{File: "moe.go", Line: 7}}
}

// recorded returns recorders and wrapped communicators of a local job.
func recorded(t *testing.T, n int, deadline time.Duration) ([]*flight.Recorder, []jaccl.Communicator) {
	comms, err := engine.Local(n, jaccl.Options{Deadline: deadline})
	require.NoError(t, err)
	recorders := make([]*flight.Recorder, n)
	for i, c := range comms {
		recorders[i] = flight.New(flight.About{Job: "j", Rank: i, Size: n, Host: "here", Transport: "local"})
		comms[i] = recorders[i].Wrap(c)
		t.Cleanup(func() { c.Close() })
	}
	return recorders, comms
}

// everything calls all operations of all groups once.
func everything(ctx context.Context, c jaccl.Communicator) error {
	g := c.World()
	n, me := g.Size(), g.Rank()
	x := make([]byte, 8*n)
	y := make([]byte, 8*n)
	parts := func(b []byte) (p [][]byte) {
		for i := range n {
			p = append(p, b[8*i:8*i+8])
		}
		return p
	}
	errs := []error{
		g.AllSum(ctx, call("all_sum", 0), y, x),
		g.AllMax(ctx, call("all_max", 1), y, x),
		g.AllMin(ctx, call("all_min", 2), y, x),
		g.AllGather(ctx, call("all_gather", 3), y, x[:8]),
		g.AllGatherV(ctx, call("all_gather_v", 4), parts(y), x[:8]),
		g.ReduceScatter(ctx, call("reduce_scatter", 5), y[:8], x),
		g.AllToAll(ctx, call("all_to_all", 6), parts(y), parts(x)),
		g.Broadcast(ctx, call("broadcast", 7), 1, x),
		g.SendRecv(ctx, call("send_recv", 8), (me+1)%n, x, (me+n-1)%n, y),
		g.Barrier(ctx, call("barrier", 9)),
	}
	switch me {
	case 0:
		errs = append(errs, g.Send(ctx, call("send", 10), 1, x))
	case 1:
		errs = append(errs, g.Recv(ctx, call("recv", 10), 0, y))
	}
	s, err := g.Split(ctx, call("split", 11), 0, -me)
	errs = append(errs, err)
	if err == nil {
		errs = append(errs, s.Barrier(ctx, call("barrier", 12)))
	}
	sub, err := c.Group([]int{me})
	errs = append(errs, err)
	if err == nil {
		errs = append(errs, sub.Barrier(ctx, call("barrier", 13)))
	}
	return errors.Join(errs...)
}

func TestOperations(t *testing.T) {
	recorders, comms := recorded(t, 3, time.Minute)
	for _, err := range jaccltest.Each(comms, func(c jaccl.Communicator) error { return everything(t.Context(), c) }) {
		require.NoError(t, err)
	}
	d := recorders[1].Take("asked")
	var names []string
	for i, o := range d.Ops {
		names = append(names, o.Op)
		if o.State != "done" || o.Number != int64(i) || o.Line != "moe.go:7" || o.Seq != i || o.Began.IsZero() || o.Micros < 0 {
			t.Errorf("operation %d: %+v", i, o)
		}
	}
	want := "all_sum all_max all_min all_gather all_gather_v reduce_scatter all_to_all broadcast send_recv barrier recv split barrier barrier"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("recorded %s\nwant %s", got, want)
	}
	for i, bytes := range map[int]int64{0: 24, 3: 24, 4: 24, 5: 24, 6: 24, 7: 24, 8: 24, 9: 0, 10: 24} {
		if d.Ops[i].Bytes != bytes {
			t.Errorf("%s: %d bytes, want %d", d.Ops[i].Op, d.Ops[i].Bytes, bytes)
		}
	}
	for i, peer := range map[int]int{7: 1, 8: 2, 10: 0} {
		if p := d.Ops[i].Peer; p == nil || *p != peer {
			t.Errorf("%s: peer %v, want %d", d.Ops[i].Op, p, peer)
		}
	}
	if r := d.Ops[12].Ranks; len(r) != 3 || r[0] != 2 { // ordered by key, which falls with the rank
		t.Errorf("the group that was split off: ranks %v, want 2 1 0", r)
	}
	if r := d.Ops[13].Ranks; len(r) != 1 || r[0] != 1 {
		t.Errorf("the group of one: ranks %v", r)
	}
}

// TestLast: the last operations are kept, and running and failed ones told apart.
func TestLast(t *testing.T) {
	recorders, comms := recorded(t, 2, 200*time.Millisecond)
	const times = flight.Kept + 44
	errs := jaccltest.Each(comms, func(c jaccl.Communicator) error {
		g := c.World()
		for i := range times {
			if err := g.Barrier(t.Context(), call("barrier", i)); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			return g.AllSum(t.Context(), call("all_sum", times), make([]byte, 8), make([]byte, 8))
		}
		return nil // rank 1 does not come
	})
	require.Error(t, errs[0])
	d := recorders[0].Take("failed")
	require.Len(t, d.Ops, flight.Kept)
	last := d.Ops[flight.Kept-1]
	if d.Begun != times+1 || last.Number != times || last.State != "failed" || !strings.Contains(last.Error, "rank 1") || last.Micros < 1e5 {
		t.Errorf("%d begun, the last %+v", d.Begun, last)
	}
	if d.Ops[0].Number != 45 {
		t.Errorf("the oldest is %d, want 45", d.Ops[0].Number)
	}
	text, err := flight.Compare([]flight.Dump{recorders[1].Take("failed"), d})
	require.NoError(t, err)
	for _, want := range []string{"rank 0 (here): operation 300, all_sum #300 f32 8 bytes among [0 1] (moe.go:7), failed after", "rank 1 (here): operation 299, barrier #299", "rank 1 did not arrive"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestRunning(t *testing.T) {
	recorders, comms := recorded(t, 2, time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- comms[0].World().Barrier(ctx, call("barrier", 0)) }()
	for recorders[0].Begun() == 0 {
		time.Sleep(time.Millisecond)
	}
	if o := recorders[0].Take("asked").Ops[0]; o.State != "running" {
		t.Errorf("an operation in progress is %s", o.State)
	}
	cancel()
	<-done
}

func TestFile(t *testing.T) {
	recorders, comms := recorded(t, 1, time.Minute)
	require.NoError(t, comms[0].World().Barrier(t.Context(), call("barrier", 5)))
	folder := filepath.Join(t.TempDir(), "new", "folder")
	path, err := recorders[0].Take("asked").Save(flight.Folder{Path: folder})
	require.NoError(t, err)
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	if len(files) != 1 || filepath.Base(path) != "flight-rank0.json" {
		t.Errorf("%v in the folder, %s saved", files, path)
	}
	d, err := flight.Read(path)
	require.NoError(t, err)
	if d.Why != "asked" || len(d.Ops) != 1 || d.Ops[0].Seq != 5 || d.Host != "here" {
		t.Errorf("read %+v", d)
	}
	for text, want := range map[string]string{
		"": "ends in the middle", `{"gomoe":"plan"}`: "no flight record", `{"gomoe":"flight","rank":2,"size":2}`: "rank 2 of 2",
	} {
		if _, err := flight.Parse("x", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	other := d
	other.Rank, other.Size, other.Job = 1, 2, "k"
	for _, tc := range [][]flight.Dump{nil, {d, other}, {d, d}} {
		if _, err := flight.Compare(tc); err == nil {
			t.Errorf("%d records compare without an error", len(tc))
		}
	}
}

// TestAllocations: recording takes no memory per operation.
func TestAllocations(t *testing.T) {
	_, comms := recorded(t, 1, time.Minute)
	g := comms[0].World()
	n := testing.AllocsPerRun(1000, func() {
		if err := g.Barrier(t.Context(), call("barrier", 0)); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations per operation", n)
	}
}

func TestWrite(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, flight.New(flight.About{Size: 1}).Take("x").Write(&b))
	_, err := flight.Parse("x", b.Bytes())
	require.NoError(t, err)
}

// Ranks without a record are written about together, however many a record claims that
// there are.
func TestManyAbsent(t *testing.T) {
	text, err := flight.Compare([]flight.Dump{
		{About: flight.About{Rank: 5, Size: 2147483647, Host: "b"}}, {About: flight.About{Rank: 1, Size: 2147483647, Host: "a"}},
	})
	require.NoError(t, err)
	require.Equal(t, `rank 0: no record; it had ended before the job failed, was killed, or wrote its record elsewhere
rank 1 (a): no operation
ranks 2 to 4: no record; they had ended before the job failed, were killed, or wrote their records elsewhere
rank 5 (b): no operation
ranks 6 to 2147483646: no record; they had ended before the job failed, were killed, or wrote their records elsewhere
`, text)
}
