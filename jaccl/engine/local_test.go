package engine_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
)

func open(t *testing.T, n int) []jaccl.Communicator {
	comms, err := engine.Local(n, jaccl.Options{Deadline: time.Minute})
	require.NoError(t, err)
	return comms
}

func TestLocal(t *testing.T) { jaccltest.Conformance(t, open) }

// No rank spins: ranks that share one processor let each other run.
func TestLocalOneProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	jaccltest.Conformance(t, open)
}

func TestLocalArguments(t *testing.T) {
	for _, n := range []int{0, -1} {
		if _, err := engine.Local(n, jaccl.Options{}); err == nil {
			t.Errorf("a job of %d ranks, want an error", n)
		}
	}
	if _, err := engine.Local(2, jaccl.Options{Deadline: -1}); err == nil {
		t.Error("a negative deadline, want an error")
	}
}
