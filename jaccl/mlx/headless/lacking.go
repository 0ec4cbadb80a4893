package headless

import (
	"context"
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
)

// Lacking refuses the operations missing in a protocol of MLX, naming an alternative. A
// group embeds it.
type Lacking struct {
	Prefix   string   // prefix of error texts
	Protocol string   // the protocol lacking the operations, such as "MLX's ring"
	Job      string   // an alternative for groups of some ranks, such as "a ring"
	Instead  string   // a transport that has the operations
	Rank     int      // this rank in the job
	More     []string // operations missing in this protocol but present in another protocol of MLX
}

// Lacks implements collective.Limited.
func (l Lacking) Lacks(op string) error {
	switch op {
	case collective.PairSums:
		return fmt.Errorf("%s%s adds in an order of its own, and a plan with the same bits on every mesh has sums in pairs of more than two ranks; use the transport tcp, shm, verbs or mpi: %w", l.Prefix, l.Protocol, jaccl.ErrUnsupported)
	case "all_to_all", "all_gather_v", "broadcast", "split": // none of MLX's protocols has these
	default:
		if !slices.Contains(l.More, op) {
			return nil
		}
	}
	return fmt.Errorf("%s%s has no %s, which tokens that are split over the experts' axis and arrays that change their placement need; keep tokens whole over the experts' axis, or use the transport tcp, shm, verbs or mpi: %w", l.Prefix, l.Protocol, op, jaccl.ErrUnsupported)
}

// Unsupported returns the error of an operation missing in the protocol. The error does
// not end the job, because nothing was sent.
func (l Lacking) Unsupported(c collective.Call, what, instead string) error {
	return &jaccl.Error{Rank: l.Rank, Call: c, Err: &FailureError{Text: fmt.Sprintf("%s%s has no %s; %s", l.Prefix, l.Protocol, what, instead), Err: jaccl.ErrUnsupported}}
}

func (l Lacking) or(instead string) string { return instead + ", or the transport " + l.Instead }

// AllToAll returns jaccl.ErrUnsupported.
func (l Lacking) AllToAll(ctx context.Context, c collective.Call, dst, src [][]byte) error {
	return l.Unsupported(c, "all_to_all", l.or("use AllGather and the parts for this rank"))
}

// AllGatherV returns jaccl.ErrUnsupported.
func (l Lacking) AllGatherV(ctx context.Context, c collective.Call, dst [][]byte, src []byte) error {
	return l.Unsupported(c, "all_gather of different lengths", l.or("use AllGather with blocks of the largest length"))
}

// Broadcast returns jaccl.ErrUnsupported.
func (l Lacking) Broadcast(ctx context.Context, c collective.Call, root int, buf []byte) error {
	return l.Unsupported(c, "broadcast", l.or("use AllSum with zeros on all ranks but the root"))
}

// Split returns jaccl.ErrUnsupported.
func (l Lacking) Split(ctx context.Context, c collective.Call, color, key int) (jaccl.Group, error) {
	return nil, l.Unsupported(c, "split", l.or("use "+l.Job+" for each group"))
}
