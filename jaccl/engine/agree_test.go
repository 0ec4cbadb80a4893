package engine

import (
	"slices"
	"testing"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
)

// Members that wait for each other in pairs do not disagree with each other. They disagree
// with the member that calls an operation of all members.
func TestPairsAmongAll(t *testing.T) {
	call := func(op string) claim {
		return claim{call: collective.Call{Op: op, Seq: 7, DType: graph.F32, Bytes: 4}}
	}
	for _, c := range []struct {
		claims []claim
		text   string
		blame  []int
	}{
		{[]claim{call(recv), call(send), call(allGather)}, "rank 6 calls all_gather #7 f32 4 bytes (-) where rank 4 calls recv #7 f32 4 bytes (-)", []int{6, 4}},
		{[]claim{call(recv), call(allGather), call(send)}, "rank 5 calls all_gather #7 f32 4 bytes (-) where rank 4 calls recv #7 f32 4 bytes (-)", []int{5, 4}},
		{[]claim{call(allGather), call(send), call(recv)}, "rank 5 calls send #7 f32 4 bytes (-) where rank 4 calls all_gather #7 f32 4 bytes (-)", []int{5, 4}},
	} {
		f := disagreement([]int{4, 5, 6}, c.claims)
		if f == nil || f.text != c.text || !slices.Equal(f.blame, c.blame) {
			t.Errorf("%+v, want %q, which blames %v", f, c.text, c.blame)
		}
	}
}
