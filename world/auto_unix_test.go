//go:build unix

package world

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gomoe/gomoe/jaccl/jaccltest"
)

// noShared keeps this process from making shared memory until the test ends.
func noShared(t *testing.T) {
	t.Helper()
	var was unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &was))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1024, Max: was.Max}))
	t.Cleanup(func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &was)) })
}

// Where shared memory is not to be had, auto is tcp on all machines, and rank 0 says so in a
// line.
func TestAutomaticWithoutShared(t *testing.T) {
	for _, machines := range []string{"aa", "aab", "baa"} {
		noShared(t)
		n := len(machines)
		sites, logs, errs := jaccltest.Sites(n), make([]bytes.Buffer, n), make([]error, n)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // ranks that do not agree wait for each other
		defer cancel()
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				s := &state{cfg: Config{Log: &logs[i]}, info: Info{Rank: i, Transport: "auto"}}
				l, err := s.agreed(ctx, apart{sites[i], machines}, automatic)
				if errs[i] = err; err != nil {
					return
				}
				defer l.Close()
				if l.Transport() != "tcp" {
					t.Errorf("%s: rank %d has %s", machines, i, l.Transport())
				}
			})
		}
		wg.Wait()
		for i := range n {
			require.NoError(t, errs[i], "%s: rank %d", machines, i)
			lines := strings.Count(logs[i].String(), "\n")
			if i > 0 && lines > 0 || i == 0 && (lines != 1 || !strings.Contains(logs[0].String(), "shared memory is not to be had: rank ") || !strings.HasSuffix(logs[0].String(), "; instead: tcp\n")) {
				t.Errorf("%s: rank %d says %q", machines, i, &logs[i])
			}
		}
	}
}

// A transport that was asked for by its name is not replaced. The error says what is in the
// way.
func TestSharedByName(t *testing.T) {
	noShared(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			env := map[string]string{"GOMOE_RANK": fmt.Sprint(i), "GOMOE_SIZE": "2", "GOMOE_COORDINATOR": l.Addr().String(), "GOMOE_SECRET": "0123456789abcdef", "GOMOE_TRANSPORT": "shm"}
			var w World
			errs[i] = w.Setup(t.Context(), Config{Deadline: time.Minute, Log: new(bytes.Buffer), Getenv: func(name string) string { return env[name] }})
			w.Close()
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.ErrorContains(t, err, "transport shm is not to be had: rank 0")
		require.ErrorContains(t, err, "files of at most 1024 bytes, want at least ")
		require.ErrorContains(t, err, "raise the limit on the size of files (ulimit -f)")
	}
}
