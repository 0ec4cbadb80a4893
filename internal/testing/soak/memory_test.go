//go:build soak && linux

package soak

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// growth is the most bytes per step by which the memory of a rank may grow. What a rank keeps
// of a step is its line of metrics, which goes to a file, so it is none; the bound allows for
// the noise of a garbage collector over some thousand steps.
const growth = 100

// full is a number of steps after which the history of a run, which is bounded, is full.
const full = 20000

// memory watches the memory of all ranks of a run.
func (b *bench) memory(t *testing.T, long time.Duration) {
	t.Run("memory", func(t *testing.T) {
		j := b.start(t, "memory")
		j.launch(j.train(forever, j.out), nil, four)
		j.trains()
		for began := time.Now(); j.steps() < full || time.Since(began) < long/4; time.Sleep(time.Second) {
			require.Less(t, time.Since(began), long/4+10*patience, "time for %d steps", full)
		}
		pids := make([]int, ranks)
		first, from := make([]int, ranks), j.steps()
		for r := range pids {
			pids[r] = j.rank(r)
			first[r] = resident(t, pids[r])
		}
		time.Sleep(long * 3 / 4)
		steps := j.steps() - from
		require.Greater(t, steps, 1000, "steps in %v", long)
		for r, pid := range pids {
			each := float64(resident(t, pid)-first[r]) / float64(steps)
			t.Logf("rank %d: %d bytes of memory, %.1f more per step over %d steps", r, resident(t, pid), each, steps)
			assert.Less(t, each, float64(growth), "bytes per step by which rank %d grows", r)
		}
		require.NoError(t, j.cmd.Process.Signal(syscall.SIGINT))
		j.finish()
		j.over()
	})
}

// steps returns the number of the last step that was printed.
func (j *job) steps() int {
	all := regexp.MustCompile(`\] step +(\d+)/`).FindAllStringSubmatch(j.said.String(), -1)
	require.NotEmpty(j, all)
	n, err := strconv.Atoi(all[len(all)-1][1])
	require.NoError(j, err)
	return n
}

// resident returns how many bytes of its own a process has in memory.
func resident(t *testing.T, pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(status), "RssAnon:")
	require.True(t, found)
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return kb << 10
}
