package engine

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl/link"
)

// place is the current operation of this rank. Its lock is taken last, because the watch
// may hold its own locks when asking for the place.
type place struct {
	mu   sync.Mutex
	call collective.Call
	with []int  // ranks of the group; nil if the rank is in no operation
	pair [2]int // the ranks of a pairwise operation, or none
	two  bool   // the operation is pairwise: it needs only the ranks in pair
}

func (w *place) enter(p *post, ranks []int) {
	w.mu.Lock()
	w.call, w.with, w.pair, w.two = p.call, ranks, [2]int{p.to, p.from}, pairwise(p.call.Op)
	w.mu.Unlock()
}

func (w *place) leave() {
	w.mu.Lock()
	w.with = nil
	w.mu.Unlock()
}

// answer returns this rank's whereabouts for other ranks. of is this rank.
func (w *place) answer(of int) link.Waiting {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.with == nil {
		return link.Waiting{}
	}
	a := link.Waiting{Text: fmt.Sprintf("it waits in %s among ranks %v", w.call, w.with)}
	a.Text = a.Text[:min(len(a.Text), link.MaxWaiting)]
	candidates := w.with
	if w.two {
		candidates = w.pair[:]
	}
	for _, r := range candidates {
		if r != of && r != none && !slices.Contains(a.For, r) {
			a.For = append(a.For, r)
		}
	}
	return a
}

// blamed asks all ranks for their whereabouts, returning the ranks to blame. This rank
// waits for the suspects. The suspects that do not answer, or are in no operation, are to
// blame. If every suspect waits in an operation, blamed continues with the ranks for
// which the suspects wait, and so on; if all of these wait, the suspects are to blame.
// known describes a rank's answer; it returns "" for a rank that is in no operation.
func (e *engine) blamed(suspects []int) (blame []int, known func(rank int) string) {
	w, ok := e.watch.(link.Whereabouts)
	if !ok {
		return suspects, func(int) string { return "" }
	}
	at := w.Ask(grace)
	known = func(rank int) string {
		switch a, answered := at[rank]; {
		case !answered && w.Left(rank):
			return "it has left"
		case !answered:
			return "it does not answer"
		default:
			return a.Text
		}
	}
	return waitedFor(e.rank, suspects, func(r int) link.Waiting { return at[r] }), known
}

// waitedFor returns the ranks to blame, as in blamed. rank waits for the suspects; at
// returns the operation in which a rank waits.
func waitedFor(rank int, suspects []int, at func(rank int) link.Waiting) (blame []int) {
	seen := map[int]bool{rank: true}
	for next := suspects; len(next) > 0 && len(blame) == 0; {
		var further []int
		for _, r := range next {
			if seen[r] {
				continue
			}
			seen[r] = true
			if a := at(r); a.Text != "" {
				further = append(further, a.For...)
			} else {
				blame = append(blame, r)
			}
		}
		next = further
	}
	if len(blame) == 0 {
		return suspects
	}
	slices.Sort(blame)
	return blame
}

// further describes the ranks to blame that are not among the suspects.
func further(blame, suspects []int, known func(rank int) string) string {
	text := ""
	for _, r := range blame {
		if !slices.Contains(suspects, r) {
			text += fmt.Sprintf("; rank %d is waited for: %s", r, cmp.Or(known(r), "it is in no operation"))
		}
	}
	return text
}
