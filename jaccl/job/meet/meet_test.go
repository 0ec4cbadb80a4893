package meet

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

var testJob = uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")

// port returns an address of loopback that nobody listens at.
func port(t *testing.T, host string) string {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	require.NoError(t, err)
	defer ln.Close()
	return ln.Addr().String()
}

// options returns the Options of n ranks of one job.
func options(t *testing.T, n int) []Options {
	t.Helper()
	at := port(t, "127.0.0.1")
	os := make([]Options, n)
	for i := range os {
		os[i] = Options{Rank: i, Size: n, Coordinator: at, Job: testJob, Secret: []byte("a secret"), Host: fmt.Sprintf("host%d", i), Deadline: 3 * time.Minute}
	}
	return os
}

// join has all ranks join at the same time. It closes their places at the end of the test.
func join(t *testing.T, os []Options) ([]*Place, []error) {
	t.Helper()
	places, errs := make([]*Place, len(os)), make([]error, len(os))
	var wg sync.WaitGroup
	for i, o := range os {
		wg.Go(func() { places[i], errs[i] = Join(t.Context(), o) })
	}
	wg.Wait()
	t.Cleanup(func() {
		for _, p := range places {
			if p != nil {
				p.Close()
			}
		}
	})
	return places, errs
}

func joined(t *testing.T, os []Options) []*Place {
	t.Helper()
	places, errs := join(t, os)
	for i, err := range errs {
		require.NoError(t, err, "rank %d", i)
	}
	return places
}

// each runs f for all places at the same time.
func each(places []*Place, f func(p *Place) error) []error {
	errs := make([]error, len(places))
	var wg sync.WaitGroup
	for i, p := range places {
		wg.Go(func() { errs[i] = f(p) })
	}
	wg.Wait()
	return errs
}

// says checks that every error contains every word.
func says(t *testing.T, errs []error, words ...string) {
	t.Helper()
	for i, err := range errs {
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("rank %d: %v, want %q", i, err, w)
			}
		}
	}
}

// exercise gathers and dials on all places, and sends over every connection.
func exercise(t *testing.T, places []*Place) {
	t.Helper()
	n := len(places)
	errs := each(places, func(p *Place) error {
		if p.Size() != n {
			return fmt.Errorf("size %d, want %d", p.Size(), n)
		}
		for turn := range 3 {
			all, err := p.Gather(t.Context(), fmt.Sprint("turn ", turn), bytes.Repeat([]byte{byte(p.Rank())}, turn*p.Rank()))
			if err != nil {
				return err
			}
			for r, b := range all {
				if !bytes.Equal(b, bytes.Repeat([]byte{byte(r)}, turn*r)) {
					return fmt.Errorf("turn %d: rank %d passed %v", turn, r, b)
				}
			}
			conns, err := p.Dial(t.Context(), fmt.Sprint("test ", turn))
			if err != nil {
				return err
			}
			for r, c := range conns {
				if (c == nil) != (r == p.Rank()) {
					return fmt.Errorf("rank %d has connection %v to %d", p.Rank(), c, r)
				}
				if c != nil {
					defer c.Close()
					fmt.Fprintf(c, "%3d to %3d turn %d\n", p.Rank(), r, turn)
				}
			}
			for r, c := range conns {
				if c == nil {
					continue
				}
				want := fmt.Sprintf("%3d to %3d turn %d\n", r, p.Rank(), turn)
				got := make([]byte, len(want))
				if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
					return fmt.Errorf("read %q, %v, want %q", got, err, want)
				}
			}
		}
		return nil
	})
	for i, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}

func TestJoin(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			places := joined(t, options(t, n))
			exercise(t, places)
			for i, p := range places {
				if p.Rank() != i || p.Host(n-1) != fmt.Sprintf("host%d", n-1) || p.Host(n) != "" || p.Host(-1) != "" || !p.SameHost(0) || p.SameHost(n) {
					t.Errorf("place %d: rank %d, host %q, same host as rank 0 %v", i, p.Rank(), p.Host(n-1), p.SameHost(0))
				}
			}
		})
	}
}

// Rank 0 may come after the other ranks, which wait for it.
func TestLateCoordinator(t *testing.T) {
	os := options(t, 3)
	places := make([]*Place, 3)
	errs := make([]error, 3)
	var wg sync.WaitGroup
	for i := range os {
		wg.Go(func() {
			if i == 0 {
				time.Sleep(300 * time.Millisecond)
			}
			places[i], errs[i] = Join(t.Context(), os[i])
		})
	}
	wg.Wait()
	for i, err := range errs {
		require.NoError(t, err, "rank %d", i)
		defer places[i].Close()
	}
	exercise(t, places)
}
