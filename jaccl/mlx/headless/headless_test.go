package headless

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
)

// What can be run passes the checks, and what cannot is an argument's error of this rank that
// says what is wanted.
func TestMember(t *testing.T) {
	m := &Member{Prefix: "ring: ", Members: []int{4, 5}, Index: 1}
	call := func(op string, d graph.DType) collective.Call { return collective.Call{Op: op, DType: d} }
	b := make([]byte, 64)
	for _, c := range []struct {
		f    *FailureError
		want string // "" for no failure
	}{
		{m.Reduction(call("all_sum", graph.F32), "all_sum", b[:8], b[8:16]), ""},
		{m.Reduction(call("all_sum", graph.F32), "all_sum", b[:8], b[:8]), ""},
		{m.Reduction(call("all_min", graph.Bool), "all_min", b[:3], b[8:11]), ""},
		{m.Reduction(call("all_max", graph.F32), "all_sum", b[:8], b[:8]), "the method of all_sum, want the method of its name"},
		{m.Reduction(call("all_sum", graph.NoDType), "all_sum", b[:8], b[:8]), "want a type that MLX reduces: bool to f64"},
		{m.Reduction(call("all_sum", graph.F8_E5M2), "all_sum", b[:8], b[:8]), "elements of f8_e5m2, whose sums would lose most of their bits; convert them to f32 or bf16 before the sum"},
		{m.Reduction(call("all_sum", graph.F32), "all_sum", b[:6], b[:6]), "a buffer of 6 bytes, want whole elements of 4 bytes"},
		{m.Reduction(call("all_sum", graph.F32), "all_sum", b[:4], b[8:16]), "dst of 4 bytes and src of 8, want equal lengths"},
		{m.Reduction(call("all_sum", graph.F32), "all_sum", b[4:12], b[:8]), "overlaps a part of src"},
		{m.Gather(call("all_gather", graph.U8), b[:6], b[8:11]), ""},
		{m.Gather(call("all_gather", graph.U8), b[:7], b[8:11]), "want 6 of dst for 2 members"},
		{m.Gather(call("all_gather", graph.U8), b[:6], b[5:8]), "want separate buffers"},
		{m.Scatter(call("reduce_scatter", graph.F32), b[:4], b[8:16]), ""},
		{m.Scatter(call("reduce_scatter", graph.F32), b[:4], b[8:20]), "want 8 of src for 2 members"},
		{m.Scatter(call("reduce_scatter", graph.F32), b[:4], b[:8]), "want separate buffers"},
	} {
		switch {
		case c.want == "" && c.f != nil:
			t.Errorf("%v, want no failure", c.f)
		case c.want == "":
		case c.f == nil || !strings.Contains(c.f.Text, c.want) || !strings.HasPrefix(c.f.Text, "ring: rank 5 calls ") || !errors.Is(c.f, jaccl.ErrArgument) || fmt.Sprint(c.f.Blame) != "[5]":
			t.Errorf("%+v, want %q, of rank 5", c.f, c.want)
		}
	}
}

func TestRanks(t *testing.T) {
	for _, c := range []struct {
		ranks []int
		want  string
	}{{[]int{0, 1, 2}, ""}, {[]int{2, 0}, ""}, {[]int{3}, "rank 3 is not in the job, want 0 to 2"}, {[]int{-1}, "rank -1 is not"}, {[]int{1, 0, 1}, "rank 1 twice"}} {
		err := Ranks("mesh: ", c.ranks, 3)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "mesh: group ")) {
			t.Errorf("%v: %v, want %q", c.ranks, err, c.want)
		}
	}
}

// An operation that the protocol does not have is refused beforehand and when it is called,
// and an operation that it has is not.
func TestLacking(t *testing.T) {
	l := &Member{Prefix: "ring: ", Protocol: "MLX's ring", Job: "a ring", Instead: "tcp", More: []string{"reduce_scatter"}, Members: Everyone(4), Index: 3}
	for _, op := range []string{"all_to_all", "all_gather_v", "broadcast", "split", "reduce_scatter"} {
		if err := l.Lacks(op); !errors.Is(err, jaccl.ErrUnsupported) || !strings.Contains(err.Error(), "MLX's ring has no "+op) {
			t.Errorf("%s: %v, want that the ring has none", op, err)
		}
	}
	for _, op := range []string{"all_sum", "all_gather", "barrier"} {
		if err := l.Lacks(op); err != nil {
			t.Errorf("%s: %v, want nil", op, err)
		}
	}
	_, split := l.Split(t.Context(), collective.Call{}, 0, 0)
	for _, err := range []error{split, l.AllToAll(t.Context(), collective.Call{}, nil, nil), l.AllGatherV(t.Context(), collective.Call{}, nil, nil), l.Broadcast(t.Context(), collective.Call{}, 0, nil)} {
		var e *jaccl.Error
		if !errors.Is(err, jaccl.ErrUnsupported) || !errors.As(err, &e) || e.Rank != 3 || !strings.Contains(err.Error(), "the transport tcp") {
			t.Errorf("%v, want an error of rank 3 that names the transport tcp", err)
		}
	}
}

// A failure and the end of a context at the same time are both in the error.
func TestError(t *testing.T) {
	m := &Member{Members: Everyone(3), Index: 2}
	cause := errors.New("the user has had enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	lost := &FailureError{Blame: []int{1}, Text: "rank 1 is gone", Err: jaccl.ErrLost}
	if err := m.Error(ctx, collective.Call{}, lost); errors.Is(err, cause) || !errors.Is(err, jaccl.ErrLost) {
		t.Errorf("%v, want ErrLost alone", err)
	}
	cancel(cause)
	if err := m.Error(ctx, collective.Call{}, lost); !errors.Is(err, cause) || !errors.Is(err, jaccl.ErrLost) {
		t.Errorf("%v, want both causes", err)
	}
	left := m.Left(ctx, collective.Call{Op: "all_sum"}, " at once")
	if err := m.Error(ctx, collective.Call{}, left); !errors.Is(err, cause) || strings.Count(err.Error(), cause.Error()) != 1 {
		t.Errorf("%v, want the cause once", err)
	}
}
