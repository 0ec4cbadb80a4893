//go:build unix

package world_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/world"
)

// The end of the launcher ends the collectives of all ranks, with the reason, and a
// set-up that waits for others.
func TestLauncherGone(t *testing.T) {
	r, life, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	at := address(t)
	var wg sync.WaitGroup
	up := make(chan bool, 2)
	for i := range 2 {
		wg.Go(func() {
			var w world.World
			defer w.Close()
			env := fmt.Sprintf("%s GOMOE_LIFELINE=%d", job(i, 2, at), r.Fd())
			err := w.Setup(t.Context(), world.Config{Transport: "tcp", Deadline: time.Minute, Getenv: vars(env)})
			up <- err == nil
			for err == nil {
				err = w.Warmup(t.Context())
			}
			if !strings.Contains(err.Error(), "the launcher of this job has ended") {
				t.Errorf("process %d: %v, want that the launcher has ended", i, err)
			}
		})
	}
	require.True(t, <-up && <-up)
	require.NoError(t, life.Close())
	wg.Wait()

	// The other rank never comes.
	r, life, err = os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	time.AfterFunc(50*time.Millisecond, func() { life.Close() })
	var w world.World
	began := time.Now()
	err = w.Setup(t.Context(), world.Config{Deadline: time.Minute, Getenv: vars(fmt.Sprintf("%s GOMOE_LIFELINE=%d", job(0, 2, address(t)), r.Fd()))})
	require.ErrorContains(t, err, "the launcher of this job has ended")
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("Setup returned after %v", took)
	}
	require.NoError(t, w.Close())
}

// Rank 0 takes the listener that it was started with, again after Reset; a number that
// stands for something else by now is not taken.
func TestListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	require.NoError(t, err)
	defer f.Close()
	at := l.Addr().String()
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			var w world.World
			defer w.Close()
			env := job(i, 2, at)
			if i == 0 {
				env += fmt.Sprintf(" GOMOE_LISTENER=%d", f.Fd())
			}
			for range 2 {
				err := w.Setup(t.Context(), world.Config{Transport: "tcp", Deadline: time.Minute, Log: io.Discard, Getenv: vars(env)})
				if err == nil {
					err = w.Warmup(t.Context())
				}
				if err != nil {
					t.Errorf("process %d: %v", i, err)
					return
				}
				if err := w.Reset(); err != nil {
					t.Errorf("process %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()

	other, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer other.Close()
	var log strings.Builder
	at = address(t)
	for i := range 2 {
		wg.Go(func() {
			var w world.World
			defer w.Close()
			cfg := world.Config{Transport: "tcp", Deadline: time.Minute, Getenv: vars(job(i, 2, at))}
			if i == 0 {
				cfg.Getenv, cfg.Log = vars(fmt.Sprintf("%s GOMOE_LISTENER=%d GOMOE_LIFELINE=%d", job(i, 2, at), other.Fd(), other.Fd())), &log
			}
			if err := w.Setup(t.Context(), cfg); err != nil {
				t.Errorf("process %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if !strings.Contains(log.String(), "is something else now") {
		t.Errorf("log %q", log.String())
	}
}
