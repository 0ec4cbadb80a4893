package world_test

import (
	"flag"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/world"
)

// A rank that never comes is decided by the deadline, which the Config states or, if it does
// not, the environment.
func TestNeverArrives(t *testing.T) {
	for _, c := range []struct {
		env  string
		cfg  time.Duration
		want string
	}{
		{"GOMOE_DEADLINE=1s", 0, "rank 1 did not come to the coordinator within 1s"},
		{"GOMOE_DEADLINE=1h", 300 * time.Millisecond, "rank 1 did not come to the coordinator within 300ms"},
	} {
		var w world.World
		err := w.Setup(t.Context(), world.Config{Deadline: c.cfg, Log: io.Discard, Getenv: vars(job(0, 2, address(t)) + " " + c.env)})
		require.ErrorContains(t, err, c.want)
		require.NoError(t, w.Close())
	}
}

// Ranks that would wait for each other for different times are told so, all of them.
func TestDeadlinesDiffer(t *testing.T) {
	for i, err := range worlds(t, 2, func(i int) world.Config {
		return world.Config{Transport: "tcp", Deadline: time.Duration(20+i) * time.Second}
	}, func(int, *world.World) error { return nil }) {
		require.ErrorContains(t, err, "ranks disagree on deadline: rank 1", "rank %d", i)
		require.ErrorContains(t, err, `has "21s" where rank 0`, "rank %d", i)
	}
}

// What is no deadline is refused where it is set.
func TestBadDeadline(t *testing.T) {
	var w world.World
	defer w.Close()
	for _, d := range []time.Duration{-time.Second, 30} {
		require.ErrorContains(t, w.Setup(t.Context(), world.Config{Deadline: d, Getenv: vars("")}), "want 0 for 30s, or at least 1ms")
	}
	require.ErrorContains(t, w.Setup(t.Context(), world.Config{Getenv: vars("GOMOE_DEADLINE=0")}), "GOMOE_DEADLINE=0: want a number with its unit")
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	d := world.DeadlineFlag(fs)
	require.ErrorContains(t, fs.Parse([]string{"-deadline", "10"}), `invalid value "10" for flag -deadline: want a number with its unit, such as 90s or 10m, from 1s to 24h`)
	require.NoError(t, fs.Parse([]string{"-deadline", "90s"}))
	require.Equal(t, 90*time.Second, *d)
}
