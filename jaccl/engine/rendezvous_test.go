package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
)

// A group outlives the steps that use it and must not keep their buffers alive,
// whether an operation succeeded or a member left it.
func TestBuffersAreLetGo(t *testing.T) {
	for _, ranks := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			comms, err := Local(2, jaccl.Options{Deadline: time.Second})
			require.NoError(t, err)
			g, err := comms[0].Group([]int{0, 1}[:ranks])
			require.NoError(t, err)
			buf := make([]byte, 64)
			err = g.AllSum(t.Context(), collective.Call{Op: allSum, DType: graph.U8}, buf, buf)
			require.Equal(t, ranks == 1, err == nil, "%v", err)
			for i, p := range g.(*member).r.posts {
				if p.src != nil || p.dst != nil {
					t.Errorf("group of %d: member %d's buffers are kept", ranks, i)
				}
			}
		})
	}
}
