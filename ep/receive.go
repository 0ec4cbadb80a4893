package ep

import "fmt"

// Receive sets the elements of chosen to -1 for the pairs with rows that a member does
// not accept. A member accepts the first capacity rows for it, in the order of the
// group's tokens; a row serves all pairs of its token that chose the member's experts.
// Receive sets need[m] to the number of rows for member m, accepted or not.
//
// chosen int32[T,k] has the pairs of the whole batch within the experts' capacities, and
// tokens has a part for each source. Pairs of other groups are unchanged. last has one
// element per member.
func (g Group) Receive(need, chosen []int32, tokens Split, k, capacity int, last []int32) {
	for m := range g.Sources {
		need[m], last[m] = 0, -1
	}
	for _, s := range g.Sources {
		for t := tokens[s]; t < tokens[s+1]; t++ {
			for i := t * k; i < (t+1)*k; i++ {
				if chosen[i] < 0 {
					continue
				}
				m := g.Experts.Owner(int(chosen[i]))
				if last[m] != int32(t) {
					last[m] = int32(t)
					need[m]++
				}
				if int(need[m]) > capacity {
					chosen[i] = -1
				}
			}
		}
	}
}

// ReceiveError reports that a rank would receive more rows than it accepts.
type ReceiveError struct {
	Rank     int // the rank that would receive the most rows
	Need     int // its rows
	Capacity int
}

func (e *ReceiveError) Error() string {
	return fmt.Sprintf("ep: rank %d: %d rows to receive, want at most its receive capacity %d; raise the receive capacity to %d, or drop the rows that do not fit",
		e.Rank, e.Need, e.Capacity, e.Need)
}
