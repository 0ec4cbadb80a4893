package engine

import (
	"testing"

	"github.com/gomoe/gomoe/jaccl/link"
)

// Where a network is torn a rank is told by another one that it does not answer. It does not say so of itself.
func TestNoticed(t *testing.T) {
	silent := "rank 1 (vm) does not answer: nothing has come from it for 5s"
	for _, c := range []struct {
		n    link.Notice
		want string
	}{
		{link.Notice{From: 2, Blame: []int{1}, Kind: link.KindLost, Text: silent}, "rank 2 says: " + silent},
		{link.Notice{From: 2, Blame: []int{3}, Kind: link.KindLost, Text: silent}, silent},
		{link.Notice{From: 1, Blame: []int{1}, Kind: link.KindLost, Text: silent}, silent},
		{link.Notice{From: 2, Blame: []int{1}, Kind: link.KindDeadline, Text: "rank 1 is in all_sum #5"}, "rank 1 is in all_sum #5"},
	} {
		if got := (&engine{rank: 1}).noticed(c.n); got.text != c.want {
			t.Errorf("%+v: %q, want %q", c.n, got.text, c.want)
		}
	}
}
