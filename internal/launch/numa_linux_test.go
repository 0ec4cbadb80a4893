package launch

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/job/hostfile"
)

// Ranks run on the processors of their node, and the launcher on all of its own.
func TestNUMA(t *testing.T) {
	mine, err := allowedProcessors()
	require.NoError(t, err)
	require.Greater(t, len(mine), 1, "two nodes want two processors")
	folder := fstest.MapFS{}
	for i, n := range mine[:2] {
		folder[fmt.Sprintf("node%d/cpulist", i)] = &fstest.MapFile{Data: fmt.Append(nil, n)}
	}
	var out, diag bytes.Buffer
	status, err := Run(context.Background(), Options{
		Command: []string{"grep", "Cpus_allowed_list", "/proc/self/status"}, Ranks: 2, NUMA: true, nodes: folder, Stdout: &out, Stderr: &diag,
	})
	require.NoError(t, err)
	require.Zero(t, status, diag.String())
	for r, n := range mine[:2] {
		if !strings.Contains(out.String(), fmt.Sprintf("[%d] Cpus_allowed_list:\t%d\n", r, n)) {
			t.Errorf("rank %d is not on processor %d alone: %q", r, n, out.String())
		}
	}
	after, err := allowedProcessors()
	require.NoError(t, err)
	require.Equal(t, mine, after)
}

func TestNUMAElsewhere(t *testing.T) {
	_, err := Run(context.Background(), Options{Command: []string{"true"}, Hosts: []hostfile.Host{{SSH: "nowhere.invalid"}}, NUMA: true})
	require.ErrorContains(t, err, "rank 0 runs on nowhere.invalid, want ranks on this machine only")
}
