package meet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/frame"
)

// If ranks do not form one job, all that have come get an error that names both sides.
func TestNoJob(t *testing.T) {
	facts := func(f ...Fact) func([]Options) { return func(o []Options) { o[2].Facts = f } }
	common := []Fact{{"version", "1.2"}, {"mesh", "dp=3"}}
	for name, c := range map[string]struct {
		change func(o []Options)
		want   []string
		on     []int
	}{
		"rank twice":   {func(o []Options) { o[2].Rank = 1; o[2].Host = "elsewhere" }, []string{"claims to be a rank that rank 1 (", ") is already", "host1", "elsewhere"}, []int{0, 1, 2}},
		"a rank more":  {func(o []Options) { o[2].Size = 4; o[2].Rank = 3 }, []string{"rank 3 (host2, from 127.0.0.1:", "says that the job has 4 ranks where rank 0 (host0) says 3"}, []int{0, 1, 2}},
		"smaller size": {func(o []Options) { o[1].Size = 2 }, []string{"rank 1 (host1, from 127.0.0.1:", "says that the job has 2 ranks where rank 0 (host0) says 3"}, []int{0, 1, 2}},
		"fact":         {facts(common[0], Fact{"mesh", "dp=1,ep=3"}), []string{`ranks disagree on mesh: rank 2 (host2) has "dp=1,ep=3" where rank 0 (host0) has "dp=3"`}, []int{0, 1, 2}},
		"first fact":   {facts(Fact{"version", "1.3"}, Fact{"mesh", "ep=3"}), []string{`ranks disagree on version: rank 2 (host2) has "1.3" where rank 0 (host0) has "1.2"`}, []int{0, 1, 2}},
		"fewer facts":  {facts(common[0]), []string{`rank 2 (host2) says nothing of mesh where rank 0 (host0) has "dp=3"`}, []int{0, 1, 2}},
		"more facts":   {facts(common[0], common[1], Fact{"transport", "tcp"}), []string{`rank 2 (host2) has transport "tcp", of which rank 0 (host0) says nothing`}, []int{0, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			opts := options(t, 3)
			for i := range opts {
				opts[i].Facts = common
			}
			c.change(opts)
			_, errs := join(t, opts)
			for _, i := range c.on {
				says(t, errs[i:i+1], c.want...)
			}
		})
	}
}

// A rank that comes after the others have been told of a failure is told, too.
func TestNoJobLate(t *testing.T) {
	opts := options(t, 3)
	opts[1].Size, opts[0].linger = 7, 3*time.Minute
	errs := make([]error, 3)
	var wg sync.WaitGroup
	wg.Go(func() { _, errs[0] = Join(t.Context(), opts[0]) })
	for i := 1; i < 3; i++ {
		_, errs[i] = Join(t.Context(), opts[i])
	}
	wg.Wait()
	says(t, errs, "rank 1 (host1, from", "7 ranks where rank 0 (host0) says 3")
}

// A process tells rank 0 that it is rank 0.
func TestRankZeroTwice(t *testing.T) {
	o := options(t, 2)[0]
	c, d, _ := knocker(t, o, time.Minute)
	conn := dialed(t, d.ln.Addr())
	_, err := knock(t.Context(), conn, o.Secret, &hello{job: testJob, size: 2, purpose: joining, host: "twin"})
	require.NoError(t, err)
	_, _, err = read(conn, typeResult, 0, 100)
	says(t, []error{err, c.failed}, "rank 0 (twin, from 127.0.0.1:", "claims to be rank 0, which rank 0 (host0) is")
}

// All ranks that have come get an error that names the ranks that have not.
func TestMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		come []int
		want []string
	}{
		"rank 2":      {[]int{0, 1, 3}, []string{"meet: rank 2 did not come to the coordinator within 5s"}},
		"rank 0, too": {[]int{1, 2}, []string{"did not reach the coordinator, rank 0, at ", "no answer within 5s", "refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opts []Options
			for i, o := range options(t, 4) {
				if o.Deadline = 5 * time.Second; slices.Contains(c.come, i) {
					opts = append(opts, o)
				}
			}
			_, errs := join(t, opts)
			says(t, errs, c.want...)
		})
	}
}

// Ranks that are at different points of the program get an error that says so.
func TestMismatch(t *testing.T) {
	for want, f := range map[string]func(p *Place) error{
		`rank 1 (host1) is at "gather b" where rank 0 (host0) is at "gather a"`: func(p *Place) error {
			_, err := p.Gather(t.Context(), map[bool]string{true: "b", false: "a"}[p.Rank() == 1], nil)
			return err
		},
		`rank 1 (host1) is at "dial b" where rank 0 (host0) is at "dial a"`: func(p *Place) error {
			_, err := p.Dial(t.Context(), map[bool]string{true: "b", false: "a"}[p.Rank() == 1])
			return err
		},
		`rank 2 (host2) is at "dial a" where rank 0 (host0) is at "gather a"`: func(p *Place) error {
			if p.Rank() == 2 {
				_, err := p.Dial(t.Context(), "a")
				return err
			}
			_, err := p.Gather(t.Context(), "a", nil)
			return err
		},
	} {
		places := joined(t, options(t, 3))
		says(t, each(places, f), want)
		// Later calls fail in the same way.
		says(t, each(places, func(p *Place) error { _, err := p.Gather(t.Context(), "later", nil); return err }), want)
		says(t, each(places, func(p *Place) error { _, err := p.Dial(t.Context(), "later"); return err }), want)
	}
}

// A rank that does not come to a gather is named, with its host.
func TestGatherDeadline(t *testing.T) {
	t.Parallel()
	for _, missing := range []int{0, 2} {
		t.Run(fmt.Sprint(missing), func(t *testing.T) {
			t.Parallel()
			opts := options(t, 3)
			for i := range opts {
				opts[i].Deadline = 5 * time.Second // of Join, too
			}
			places := joined(t, opts)
			come := slices.Delete(slices.Clone(places), missing, missing+1)
			errs := each(come, func(p *Place) error { _, err := p.Gather(t.Context(), "key", nil); return err })
			says(t, errs, fmt.Sprintf(`meet: rank %d (host%d) did not come to "gather key" within 5s`, missing, missing))
			_, err := places[missing].Gather(t.Context(), "key", nil) // too late
			says(t, []error{err}, "did not come")
		})
	}
}

// If a context ends, its rank gets the cause, and the others an error that names the rank.
func TestGatherContext(t *testing.T) {
	errStop := errors.New("told to stop")
	for who := range 3 {
		places := joined(t, options(t, 3))
		ctx, cancel := context.WithCancelCause(t.Context())
		errs := make([]error, 3)
		var wg sync.WaitGroup
		for i, p := range places {
			if i == (who+1)%3 {
				continue // comes later
			}
			wg.Go(func() {
				c := t.Context()
				if i == who {
					c = ctx
				}
				_, errs[i] = p.Gather(c, "key", nil)
			})
		}
		time.Sleep(50 * time.Millisecond)
		cancel(errStop)
		wg.Wait()
		_, errs[(who+1)%3] = places[(who+1)%3].Gather(t.Context(), "key", nil)
		if !errors.Is(errs[who], errStop) {
			t.Errorf("rank %d: %v, want the context's cause", who, errs[who])
		}
		errs = slices.Delete(errs, who, who+1)
		says(t, errs, fmt.Sprintf(`meet: rank %d (host%d) left "gather key": told to stop`, who, who))
	}
}

// A rank that closes, or whose connection ends, fails the gathers of the others,
// also those that wait already.
func TestGone(t *testing.T) {
	for want, end := range map[string]func(p *Place){
		"rank 1 (host1) has closed its place":       func(p *Place) { p.Close() },
		"rank 1 (host1) has ended without a word":   func(p *Place) { breakOff(t, p) },
		"rank 1 (host1) cannot be heard: frame: no": func(p *Place) { p.memberConn(t).Write([]byte("GET / HTTP/1.1\r\n\r\nand more of it")) },
	} {
		places := joined(t, options(t, 3))
		errs := make([]error, 3)
		var wg sync.WaitGroup
		wg.Go(func() { _, errs[2] = places[2].Gather(t.Context(), "key", nil) })
		time.Sleep(20 * time.Millisecond)
		end(places[1])
		wg.Wait()
		_, errs[0] = places[0].Gather(t.Context(), "key", nil)
		says(t, []error{errs[0], errs[2]}, want)
	}
	places := joined(t, options(t, 2))
	places[0].Close()
	_, err := places[1].Gather(t.Context(), "key", nil)
	if err == nil || !strings.Contains(err.Error(), "rank 0 at 127.0.0.1:") {
		t.Errorf("%v, want that rank 0 is gone", err)
	}
}

// memberConn is a rank's connection to the coordinator.
func (p *Place) memberConn(t *testing.T) net.Conn {
	t.Helper()
	if p.coordinator == nil {
		t.Fatal("rank 0 has no connection to itself")
	}
	return p.coordinator
}

func breakOff(t *testing.T, p *Place) { p.memberConn(t).Close() }

// A key or data that is too long is an error on that rank alone.
func TestTooMuch(t *testing.T) {
	p := joined(t, options(t, 2))[1]
	_, err := p.Gather(t.Context(), "key", make([]byte, maxGather+1))
	says(t, []error{err}, "1048577 bytes and a key of 3, want at most 1048576 and 200")
	_, err = p.Gather(t.Context(), strings.Repeat("k", 201), nil)
	says(t, []error{err}, "a key of 201")
	_, err = p.Dial(t.Context(), strings.Repeat("k", 201))
	says(t, []error{err}, "a purpose of 201 bytes")
}

// A key and data of the largest allowed sizes arrive.
func TestMuch(t *testing.T) {
	places := joined(t, options(t, 3))
	for i, err := range each(places, func(p *Place) error {
		all, err := p.Gather(t.Context(), strings.Repeat("k", 200), make([]byte, maxGather))
		if err == nil && (len(all) != 3 || len(all[2]) != maxGather) {
			err = fmt.Errorf("%d parts", len(all))
		}
		return err
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}

// Close closes the port, and the connections that no Dial has taken. It does not close
// connections that Dial has returned.
func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	places := joined(t, options(t, 3))
	conns := make([][]net.Conn, 3)
	for i, err := range each(places, func(p *Place) (err error) { conns[p.Rank()], err = p.Dial(t.Context(), "x"); return err }) {
		require.NoError(t, err, "rank %d", i)
	}
	waits := make(chan error, 1)
	go func() { _, err := places[2].Gather(t.Context(), "key", nil); waits <- err }()
	time.Sleep(20 * time.Millisecond)
	places[2].Close()
	select {
	case err := <-waits:
		says(t, []error{err}, "the place was closed")
	case <-time.After(2 * time.Minute):
		t.Fatal("a gather outlives its place")
	}
	var ports []string
	for _, p := range places {
		ports = append(ports, p.door.ln.Addr().String())
		p.Close()
		p.Close()
	}
	for _, at := range ports {
		if c, err := net.Dial("tcp", at); err == nil {
			c.Close()
			t.Errorf("%s is still listened at", at)
		}
	}
	_, err := conns[0][1].Write([]byte("x"))
	require.NoError(t, err)
	got := make([]byte, 1)
	_, err = io.ReadFull(conns[1][0], got)
	require.NoError(t, err)
	for _, cs := range conns {
		for _, c := range cs {
			if c != nil {
				c.Close()
			}
		}
	}
	for range 12000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

// If a rank cannot reach another one, all ranks get an error that says so.
func TestUnreachable(t *testing.T) {
	places := joined(t, options(t, 3))
	closed, err := netip.ParseAddrPort(port(t, "127.0.0.77")) // an address at which rank 1 does not listen
	require.NoError(t, err)
	places[2].roster[1].addrs = []netip.AddrPort{closed}
	errs := each(places, func(p *Place) error { _, err := p.Dial(t.Context(), "data"); return err })
	says(t, errs, `meet: "dial data": rank 2 (host2): cannot connect to rank 1 (host1): `, "127.0.0.77")
}

func TestOptions(t *testing.T) {
	good := options(t, 2)[1]
	for want, change := range map[string]func(o *Options){
		"job of 0 ranks":                  func(o *Options) { o.Size = 0 },
		"rank 2 of a job of 2":            func(o *Options) { o.Rank = 2 },
		"rank -1 of a job of 2":           func(o *Options) { o.Rank = -1 },
		"deadline -1s":                    func(o *Options) { o.Deadline = -time.Second },
		"rank 1 has a listener":           func(o *Options) { o.Listener = &net.TCPListener{} },
		"fact \"f\" has 5000 bytes":       func(o *Options) { o.Facts = []Fact{{"f", strings.Repeat("x", 5000)}} },
		"the host's name has 300 bytes":   func(o *Options) { o.Host = strings.Repeat("x", 300) },
		"257 facts":                       func(o *Options) { o.Facts = make([]Fact, 257) },
		"want host:port":                  func(o *Options) { o.Coordinator = "somewhere" },
		"and [host]:port for an IPv6 add": func(o *Options) { o.Coordinator = "::1:5000" },
		`port "x", want a number`:         func(o *Options) { o.Coordinator = "h:x" },
		"has port 0; want the one":        func(o *Options) { o.Coordinator = "127.0.0.1:0" },
		"no host; name a machine":         func(o *Options) { o.Coordinator = ":5000" },
		"no address that can be dialed":   func(o *Options) { o.Coordinator = "0.0.0.0:5000" },
		"fe80::1 is a link-local address, which says nothing without the interface; append %interface": func(o *Options) { o.Coordinator = "[fe80::1]:5000" },
	} {
		o := good
		change(&o)
		begin := time.Now()
		if _, err := Join(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if d := time.Since(begin); d > time.Minute {
			t.Errorf("%q took %v", want, d)
		}
	}
	for want, change := range map[string]func(o *Options){
		"none of which is an address of this machine, host0, where rank 0 runs; want one of [127.0.0.1": func(o *Options) { o.Coordinator = "198.51.100.7:5000" },
		"port 0, which the other ranks cannot know":                                                     func(o *Options) { o.Coordinator = "127.0.0.1:0" },
	} {
		o := options(t, 2)[0]
		change(&o)
		if _, err := Join(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("rank 0: %v, want %q", err, want)
		}
	}
}

// A context that ends while a rank looks for the coordinator, or waits there, is the error.
func TestJoinContext(t *testing.T) {
	errStop := errors.New("told to stop")
	for rank := range 2 {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(errStop) })
		if _, err := Join(ctx, options(t, 2)[rank]); !errors.Is(err, errStop) {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// FuzzMember: nothing that a rank sends makes the coordinator panic or hang.
func FuzzMember(f *testing.F) {
	f.Add(uint8(typeGather), uint32(0), frame.Bytes(frame.String(nil, "join"), []byte("x")))
	f.Add(uint8(typeFailure), uint32(0), []byte("because"))
	f.Add(uint8(typeLeave), uint32(0), []byte{})
	f.Fuzz(func(t *testing.T, typ uint8, seq uint32, head []byte) {
		c := newCoordinator(2, "host0", time.Minute)
		c.turned = func() string { return "" }
		ours, theirs := net.Pipe()
		m := &member{rank: 1, host: "host1", conn: ours}
		c.members[1] = m
		var wg sync.WaitGroup
		wg.Go(func() { c.serve(context.Background(), m) })
		wg.Go(func() {
			theirs.SetDeadline(time.Now().Add(time.Minute))
			frame.Write(theirs, typ, seq, head)
			theirs.Close()
		})
		wg.Wait()
		c.close()
	})
}

// A rank that joins while the job fails is welcomed first, since only the welcome proves to the
// rank that it talks to the coordinator, and is then told why there is no job.
func TestWelcomeBeforeFailure(t *testing.T) {
	c := newCoordinator(3, "host0", time.Minute)
	ours, theirs := net.Pipe()
	defer theirs.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		c.welcome(t.Context(), ours, &hello{rank: 1, size: 3, host: "host1"}, func() error {
			c.fail("meet: another rank is wrong")
			return frame.Write(ours, typeWelcome, 1, nil)
		})
	})
	theirs.SetReadDeadline(time.Now().Add(2 * time.Minute))
	h, _, err := frame.Read(theirs, maxText)
	require.NoError(t, err)
	assert.Equal(t, uint8(typeWelcome), h.Type)
	_, _, err = read(theirs, typeResult, 0, maxText)
	assert.EqualError(t, err, "meet: another rank is wrong")
	theirs.Close()
	wg.Wait()
}

// A rank that comes after the job has failed gets the reason of that failure, even if something
// is wrong with the rank, too.
func TestFirstFailure(t *testing.T) {
	c := newCoordinator(3, "host0", time.Minute)
	c.fail("meet: another rank is wrong")
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go c.welcome(t.Context(), ours, &hello{rank: 7, size: 9}, func() error { return nil })
	theirs.SetReadDeadline(time.Now().Add(2 * time.Minute))
	_, _, err := read(theirs, typeResult, 0, maxText)
	assert.EqualError(t, err, "meet: another rank is wrong")
}
