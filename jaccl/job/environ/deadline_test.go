package environ

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A deadline has a unit. It is neither so short that ranks without a fault exceed it, nor
// endless. Anything else is an error, in a job and without one.
func TestDeadline(t *testing.T) {
	for s, want := range map[string]time.Duration{"": 0, "1s": time.Second, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "24h": 24 * time.Hour} {
		for _, rest := range []string{"", " GOMOE_RANK=0 GOMOE_SIZE=1"} {
			job, err := Detect(vars("GOMOE_DEADLINE=" + s + rest))
			if err != nil || job.Deadline != want {
				t.Errorf("GOMOE_DEADLINE=%s%s: %v, %v, want %v", s, rest, job.Deadline, err, want)
			}
		}
	}
	for _, s := range []string{"0", "0s", "-5s", "10", "999ms", "25h", "soon", "10 s", "infs"} {
		_, err := ParseDeadline(s)
		require.EqualError(t, err, "want a number with its unit, such as 90s or 10m, from 1s to 24h", s)
	}
	_, err := Detect(vars("GOMOE_DEADLINE=10"))
	require.EqualError(t, err, "environ: GOMOE_DEADLINE=10: want a number with its unit, such as 90s or 10m, from 1s to 24h")
}
