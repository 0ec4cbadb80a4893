package meet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/frame"
)

// turnedAway collects what Options.Log is told.
type turnedAway struct {
	mu   sync.Mutex
	said []string
}

func (l *turnedAway) log(remote net.Addr, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, fmt.Sprintf("%v: %s", remote, reason))
}

// expect waits until somebody at remote was turned away for a reason.
func (l *turnedAway) expect(t *testing.T, remote, reason string) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		l.mu.Lock()
		for _, s := range l.said {
			if strings.HasPrefix(s, remote) && strings.Contains(s, reason) {
				l.mu.Unlock()
				return
			}
		}
		l.mu.Unlock()
	}
	t.Errorf("the log was told %q, want %q about %s", l.said, reason, remote)
}

// knocker is a listener of rank 0 that waits for ranks, and its log.
func knocker(t *testing.T, o Options, patience time.Duration) (*coordinator, *door, *turnedAway) {
	t.Helper()
	l := &turnedAway{}
	o.Log = l.log
	o, err := o.complete()
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := newDoor(o, ln)
	d.patience, d.strangers.count = patience, -1000 // every stranger is logged
	c := newCoordinator(o.Size, o.Host, o.Deadline)
	d.join, d.meeting, c.turned = c.welcome, 1, d.turned
	d.open()
	t.Cleanup(func() { d.close(); c.close() })
	return c, d, l
}

func dialed(t *testing.T, at net.Addr) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", at.String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// ends checks that the other side ends the connection soon.
func ends(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a stranger is not hung up on")
	}
}

// A connection that does not prove the secret is turned away soon, and the log says
// who it was and why.
func TestStrangers(t *testing.T) {
	o := options(t, 3)[0]
	_, patient, l := knocker(t, o, time.Minute)
	_, hasty, hastyLog := knocker(t, o, 300*time.Millisecond)
	good := &hello{job: testJob, rank: 1, size: 3, purpose: joining}
	another := &hello{job: uuid.MustParse("6ba7b811-9dad-11d1-80b4-00c04fd430c8"), rank: 1, size: 3, purpose: joining}
	for _, c := range []struct {
		name   string
		do     func(c net.Conn) error
		reason string
	}{
		{"http", func(c net.Conn) error { _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); return err }, `no rank of a job: frame: not a frame of gomoe: it begins with "GET / HT"`},
		{"garbage", func(c net.Conn) error { _, err := c.Write(bytes.Repeat([]byte{0xff}, 5000)); return err }, "no rank of a job"},
		{"silence", func(c net.Conn) error { return nil }, "it did not say who it is within 300ms"},
		{"half a header", func(c net.Conn) error { _, err := c.Write([]byte("gmoe\x01")); return err }, "it did not say who it is within 300ms"},
		{"leaves", func(c net.Conn) error { return c.(*net.TCPConn).CloseWrite() }, "it left before it said who it is"},
		{"long hello", func(c net.Conn) error { return frame.Write(c, typeHello, 0, make([]byte, maxText+1)) }, "head of 8193 bytes, want at most 8192"},
		{"no hello", func(c net.Conn) error { return frame.Write(c, typeGather, 0, nil) }, "frame 0 of type 6, want 0 of type 1"},
		{"bad hello", func(c net.Conn) error { return frame.Write(c, typeHello, 0, []byte("abc")) }, "3 bytes where the length of a field is wanted"},
		{"no proof", func(c net.Conn) error { return frame.Write(c, typeHello, 0, good.encode()) }, "it did not say who it is within 300ms"},
		{"empty proof", func(c net.Conn) error {
			return errors.Join(frame.Write(c, typeHello, 0, good.encode()), frame.Write(c, typeProof, 1, nil))
		}, "frame of 0 bytes, want 32"},
		{"made-up proof", func(c net.Conn) error {
			return errors.Join(frame.Write(c, typeHello, 0, good.encode()), frame.Write(c, typeProof, 1, make([]byte, proofSize)))
		}, "its secret is not this job's"},
		{"wrong secret", func(c net.Conn) error {
			h := *good
			var r *refusal
			if _, err := knock(t.Context(), c, []byte("another"), &h); !errors.As(err, &r) || r.text != errSecret.Error() {
				return fmt.Errorf("knock: %v, want a refusal", err)
			}
			return nil
		}, "its secret is not this job's"},
		{"no secret", func(c net.Conn) error {
			h := *good
			if _, err := knock(t.Context(), c, nil, &h); !errors.As(err, new(*refusal)) {
				return fmt.Errorf("knock: %v, want a refusal", err)
			}
			return nil
		}, "its secret is not this job's"},
		{"another job", func(c net.Conn) error {
			h := *another
			if _, err := knock(t.Context(), c, o.Secret, &h); !errors.As(err, new(*refusal)) {
				return fmt.Errorf("knock: %v, want a refusal", err)
			}
			return nil
		}, "it is of another job: of 6ba7b811-9dad-11d1-80b4-00c04fd430c8 and not of 6ba7b810-9dad-11d1-80b4-00c04fd430c8"},
		{"another rank", func(c net.Conn) error {
			h := *good
			h.to = 2
			if _, err := knock(t.Context(), c, o.Secret, &h); !errors.As(err, new(*refusal)) {
				return fmt.Errorf("knock: %v, want a refusal", err)
			}
			return nil
		}, "it looks for rank 2, this is rank 0"},
		{"a dial of another number", func(c net.Conn) error {
			h := *good
			h.purpose, h.meeting, h.turn = dialing+"x", 1, 7
			if _, err := knock(t.Context(), c, o.Secret, &h); !errors.As(err, new(*refusal)) {
				return fmt.Errorf("knock: %v, want a refusal", err)
			}
			return nil
		}, `rank 1 connects for "dial x", number 7, where rank 0 is at number 0`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, l := patient, l
			if strings.Contains(c.reason, "within") {
				d, l = hasty, hastyLog
			}
			conn := dialed(t, d.ln.Addr())
			if err := c.do(conn); err != nil {
				t.Error(err)
			}
			ends(t, conn)
			l.expect(t, conn.LocalAddr().String(), c.reason)
		})
	}
	for _, d := range []*door{patient, hasty} {
		d.mu.Lock()
		if len(d.halves) != 0 || len(d.parked) != 0 {
			t.Errorf("%d and %d connections are kept", len(d.halves), len(d.parked))
		}
		d.mu.Unlock()
	}
}

// However many strangers connect and say nothing, the ranks get in.
func TestCrowd(t *testing.T) {
	opts := options(t, 3)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &turnedAway{}
	opts[0].Listener, opts[0].Coordinator, opts[0].Log = ln, "", l.log
	for i := range opts {
		opts[i].Coordinator = ln.Addr().String()
	}
	var crowd []net.Conn
	for range 300 {
		crowd = append(crowd, dialed(t, ln.Addr()))
	}
	begin := time.Now()
	places := joined(t, opts)
	if d := time.Since(begin); d > time.Minute { // one stranger after the other would take 25 of them
		t.Errorf("the ranks had to wait for %v for strangers", d)
	}
	exercise(t, places)
	// The oldest connections have been closed. Which of the many are logged is not said.
	ends(t, crowd[0])
	l.expect(t, "127.0.0.1:", "it did not say who it is, and others came")
	places[0].door.mu.Lock()
	defer places[0].door.mu.Unlock()
	if n := len(places[0].door.halves); n > 2*3+64 {
		t.Errorf("%d connections that have said nothing are kept", n)
	}
}

// A proof that was overheard is of no use on another connection.
func TestReplay(t *testing.T) {
	o := options(t, 2)[0]
	c, d, l := knocker(t, o, time.Minute)
	conn := dialed(t, d.ln.Addr())
	overheard := &recorder{Conn: conn}
	_, err := knock(t.Context(), overheard, o.Secret, &hello{job: testJob, rank: 1, size: 2, purpose: joining, host: "host1"})
	require.NoError(t, err)
	again := dialed(t, d.ln.Addr())
	_, err = again.Write(overheard.written.Bytes())
	require.NoError(t, err)
	ends(t, again)
	l.expect(t, again.LocalAddr().String(), "its secret is not this job's")
	if c.failed != nil {
		t.Errorf("the job was disturbed: %v", c.failed)
	}
}

type recorder struct {
	net.Conn
	written bytes.Buffer
}

func (r *recorder) Write(b []byte) (int, error) {
	r.written.Write(b)
	return r.Conn.Write(b)
}

// A listener that does not know the secret is not accepted as the coordinator, even if it
// sends the rank's own proof back.
func TestImpostor(t *testing.T) {
	for name, answer := range map[string]func(shown []byte) []byte{
		"made up":   func([]byte) []byte { return make([]byte, proofSize) },
		"reflected": func(shown []byte) []byte { return shown },
	} {
		ours, theirs := net.Pipe()
		go func() {
			read(theirs, typeHello, 0, maxHello)
			frame.Write(theirs, typeChallenge, 0, make([]byte, challengeSize))
			_, shown, _ := read(theirs, typeProof, 1, proofSize)
			frame.Write(theirs, typeWelcome, 1, answer(shown))
		}()
		if _, err := knock(t.Context(), ours, []byte("a secret"), &hello{}); !errors.As(err, new(*refusal)) {
			t.Errorf("%s: %v, want that it is refused", name, err)
		}
		ours.Close()
	}
}

// A rank with another secret gets an error at once. The others join when a process with
// the right secret comes as that rank.
func TestWrongSecret(t *testing.T) {
	opts := options(t, 3)
	l := &turnedAway{}
	opts[0].Log = l.log
	bad := opts[2]
	bad.Secret = []byte("not it")
	failed := make(chan error, 1)
	var wg sync.WaitGroup
	places := make([]*Place, 3)
	for i := range 2 {
		wg.Go(func() {
			var err error
			if places[i], err = Join(t.Context(), opts[i]); err != nil {
				t.Errorf("rank %d: %v", i, err)
			}
		})
	}
	begin := time.Now()
	_, err := Join(t.Context(), bad)
	failed <- err
	if err == nil || !strings.Contains(err.Error(), "rank 2: the coordinator at "+opts[0].Coordinator+" knows another secret; give all ranks of the job the same one") {
		t.Errorf("%v", err)
	}
	if d := time.Since(begin); d > time.Minute {
		t.Errorf("it heard so after %v", d)
	}
	l.expect(t, "127.0.0.1:", "its secret is not this job's")
	places[2], err = Join(t.Context(), opts[2])
	require.NoError(t, err)
	wg.Wait()
	exercise(t, places)
	for _, p := range places {
		p.Close()
	}
}

func TestNoSecret(t *testing.T) {
	for _, o := range options(t, 2) {
		o.Secret = nil
		if _, err := Join(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the job has no secret; give all ranks the same one") {
			t.Errorf("rank %d: %v", o.Rank, err)
		}
	}
}

// A rank of another job does not get in, and its error after its deadline says why.
func TestWrongJob(t *testing.T) {
	t.Parallel()
	opts := options(t, 2)
	opts[1].Job, opts[1].Deadline = uuid.UUID{1}, 3*time.Second
	opts[0].Deadline = 5 * time.Second
	_, errs := join(t, opts)
	says(t, errs[:1], "rank 1 did not come to the coordinator within 5s; turned away: 127.0.0.1:", "it is of another job: of 01000000-0000-0000-0000-000000000000 and not of "+testJob.String())
	says(t, errs[1:], "rank 1 did not reach the coordinator, rank 0, at "+opts[0].Coordinator, "no answer within 3s", "refused: it is of another job")
	if strings.Contains(errs[1].Error(), testJob.String()) {
		t.Errorf("a stranger is told the job's id: %v", errs[1])
	}
}

// Of many strangers the first few are logged, and then one every ten seconds and at the end
// of the door, with the number of the others.
func TestManyStrangers(t *testing.T) {
	var said []string
	s := strangers{log: func(_ net.Addr, reason string) { said = append(said, reason) }}
	begin := time.Now()
	for i := range 30 {
		s.turned(nil, fmt.Sprintf("stranger %d", i), begin.Add(time.Duration(i)*time.Second))
	}
	s.end()
	s.end()
	require.Equal(t, []string{"stranger 0", "stranger 1", "stranger 2", "stranger 3", "stranger 4",
		"stranger 14; and 9 others within 10s", "stranger 24; and 9 others within 10s", "stranger 29; and 4 others within 5s"}, said)

	o := options(t, 3)[0]
	_, d, l := knocker(t, o, time.Minute)
	d.strangers.count = 0
	var conns []net.Conn // all within strangersEvery
	for range 20 {
		c := dialed(t, d.ln.Addr())
		_, err := c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		require.NoError(t, err)
		conns = append(conns, c)
	}
	for _, c := range conns {
		ends(t, c)
	}
	d.close()
	if n := len(l.said); n != fewStrangers+1 || !strings.Contains(l.said[n-1], "; and 14 others within ") {
		t.Errorf("of 20 strangers the log was told %q", l.said)
	}
}

// A place that is shut has no open port, and its Gather still works.
func TestShut(t *testing.T) {
	places, errs := join(t, options(t, 3))
	require.NoError(t, errors.Join(errs...))
	for _, p := range places {
		p.Shut()
		p.Shut()
		if c, err := net.Dial("tcp", p.door.ln.Addr().String()); err == nil {
			c.Close()
			t.Errorf("rank %d still listens", p.rank)
		}
	}
	var wg sync.WaitGroup
	for _, p := range places {
		wg.Go(func() {
			if all, err := p.Gather(t.Context(), "shut", []byte{byte(p.rank)}); err != nil || len(all) != 3 {
				t.Errorf("rank %d: %v, %v", p.rank, all, err)
			}
		})
	}
	wg.Wait()
	for _, p := range places {
		require.NoError(t, p.Close())
	}
}

// A rank that waits for rank 0 says so once, with the place, the reason and the time.
func TestWaiting(t *testing.T) {
	t.Parallel()
	o := options(t, 2)[1]
	var said []string
	o.Deadline, o.Waiting = patient+3*time.Second, func(text string) { said = append(said, text) }
	_, err := Join(t.Context(), o)
	require.Error(t, err)
	if len(said) != 1 || !strings.HasPrefix(said[0], "rank 1 waits for rank 0 at "+o.Coordinator+", until ") || !strings.Contains(said[0], "connection refused") {
		t.Errorf("it said %q", said)
	}
}

// FuzzHello: a hello that is decoded is encoded to the same bytes.
func FuzzHello(f *testing.F) {
	f.Add((&hello{job: testJob, rank: 1, size: 2, to: 0, host: "h", purpose: joining, turn: 3}).encode())
	f.Add((&entry{host: "h", facts: []Fact{{"a", "b"}}}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := decodeHello(b); err == nil && !bytes.Equal(h.encode(), b) {
			t.Errorf("%x was read as %+v, which is %x", b, h, h.encode())
		}
		if e, err := decodeEntry(b); err == nil {
			if len(e.addrs) > maxAddrs || len(e.facts) > maxFacts {
				t.Errorf("%+v", e)
			}
			if again, err := decodeEntry(e.encode()); err != nil || fmt.Sprint(again) != fmt.Sprint(e) {
				t.Errorf("%+v is read as %+v, %v", e, again, err)
			}
		}
	})
}
