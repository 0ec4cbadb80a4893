package flight_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/flight"
)

func dump(rank, size int, run string, started time.Time) flight.Dump {
	return flight.Dump{Gomoe: "flight", About: flight.About{Job: "j", Run: run, Rank: rank, Size: size, Host: "h", Started: started}}
}

// Records of two runs are not compared, although the job's id is the same.
func TestTwoRuns(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		a, b flight.Dump
		ok   bool
	}{
		{dump(0, 2, "r", now), dump(1, 2, "r", now.Add(time.Hour)), true},
		{dump(0, 2, "r", now), dump(1, 2, "s", now), false},
		{dump(0, 2, "", now), dump(1, 2, "", now.Add(time.Second)), true},
		{dump(0, 2, "", now), dump(1, 2, "", now.Add(time.Hour)), false},
	} {
		_, err := flight.Compare([]flight.Dump{c.a, c.b})
		if ok := err == nil; ok != c.ok || err != nil && !strings.Contains(err.Error(), "records of two jobs: rank 0 of 2 of job j, which had connected at ") {
			t.Errorf("%+v and %+v: %v", c.a.About, c.b.About, err)
		}
	}
}

// Ranks without a record are named together, and those that had closed by themselves are
// not said to have been killed.
func TestAbsent(t *testing.T) {
	d := dump(3, 2147483647, "", time.Now())
	d.Ops = []flight.Operation{{Op: "barrier", State: "failed", Error: "jaccl: rank 1 has closed its communicator"}}
	text, err := flight.Compare([]flight.Dump{d})
	require.NoError(t, err)
	for _, want := range []string{
		"rank 0: no record; it had ended before the job failed, was killed, or",
		"rank 1: no record; it had closed its communicator before\n",
		"rank 2: no record; it had ended",
		"ranks 4 to 2147483646: no record; they had ended",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if len(text) > 2000 {
		t.Errorf("%d bytes for one record", len(text))
	}
}

// What a record holds does not reach the terminal as it is.
func TestHostile(t *testing.T) {
	d := dump(0, 1, "", time.Now())
	evil := "\x1b]0;evil\a"
	d.Host = evil
	d.Ops = []flight.Operation{{Op: evil, DType: evil, Line: evil, State: evil, Error: "first\n" + evil + "\xff", Ranks: make([]int, 1e6)}}
	text, err := flight.Compare([]flight.Dump{d})
	require.NoError(t, err)
	if strings.ContainsAny(text, "\x1b\a\xff") || len(text) > 2000 || !strings.Contains(text, "    first\n") {
		t.Errorf("%q", text)
	}
	path := filepath.Join(t.TempDir(), "large")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(1<<40))
	require.NoError(t, f.Close())
	if _, err := flight.Read(path); err == nil || !strings.Contains(err.Error(), "more than 64 MiB") {
		t.Errorf("a file of 1 TiB: %v", err)
	}
}
