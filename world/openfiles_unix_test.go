//go:build unix

package world_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gomoe/gomoe/world"
)

// A process that may open no more files says so when it joins a job, and what to do.
func TestFewFiles(t *testing.T) {
	var was unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	few := was
	few.Cur = 3
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was)) }()
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	var w world.World
	err := w.Setup(t.Context(), world.Config{Mode: world.PerProcess, Getenv: vars(job(0, 1, "127.0.0.1:0"))})
	require.ErrorContains(t, err, "too many open files")
	require.ErrorContains(t, err, "raise it in the shell that starts the job, such as with ulimit -n 1024")
}
