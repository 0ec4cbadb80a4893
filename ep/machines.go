package ep

// Machines is a group with members on several machines, equally many on each, consecutive
// in the group. A row is sent once to each machine that has experts for its token: to the
// member there with the same position as the row's own member. That member forwards it to
// the members of its machine that have experts for it. Rows for the own machine are
// forwarded by their own member.
//
// Like Group's functions, the functions below compute the exchange from chosen
// int32[T,k], the expert of each kept pair, and -1 for all other pairs.
type Machines struct {
	Group
	N int // machines
}

// each returns the number of members of a machine.
func (g Machines) each() int { return len(g.Sources) / g.N }

// machine returns the machine owning expert e, -1 for e = -1.
func (g Machines) machine(e int32) int {
	if e < 0 {
		return -1
	}
	return g.Experts.Owner(int(e)) / g.each()
}

// Passage lists the rows sent from a member, through it and to it.
type Passage struct {
	// Out has the tokens of the member with rows for other machines, by machine and then
	// in token order.
	Out []int32
	// Pass has the rows that the member forwards, by member of its machine, then by the
	// machine of the row's own member, then in token order. Number j ≥ 0 is the j-th row
	// received from other machines, and -1-t the row of the member's own token t.
	Pass []int32
	// Home int32[tokens of the member,k] has, for every pair, the row returning for it:
	// an index of Pass for pairs of the own machine, len(Pass) plus an index of Out for
	// others, -1 for a pair that is not kept. Relay int32[rows received from other
	// machines,k] has an index of Pass for the pairs of this machine, and -1.
	Home, Relay []int32
	// Between int32[2,machines] is the number of rows sent to and received from each
	// machine, and Within int32[2,members of a machine] the number of rows forwarded to
	// each member and received from it.
	Between, Within []int32
	// Base int32[members] is the index, among the rows received by the member, of the
	// first row from each other member.
	Base []int32
}

// Room returns the capacities of a Passage in rows, for a group with members that have at
// most `most` tokens of k choices each: the rows that a member sends to other machines,
// the rows received from there, and the rows that a member forwards.
func (g Machines) Room(most, k int) (out, come, pass int) {
	return most * min(k, g.N-1), most * (g.N - 1), most * g.N * min(k, g.each())
}

// Find sets the fields of p, which have the capacities of Room, to the rows sent from,
// through and to member. tokens has a part of chosen for each source. The unused end of
// Out holds -1, the unused end of Pass the lowest int32. It returns the numbers of rows
// sent to other machines, received from there, forwarded, and received in total.
func (g Machines) Find(p Passage, chosen []int32, tokens Split, k, member int) (out, come, pass, arrive int) {
	each := g.each()
	machine, place := member/each, member%each
	for _, list := range [...][]int32{p.Home, p.Relay, p.Out} {
		for i := range list {
			list[i] = -1
		}
	}
	for i := range p.Pass {
		p.Pass[i] = none
	}
	clear(p.Between)
	clear(p.Within)
	part := func(m int) (first, end int) { return tokens.Part(g.Sources[m]) }
	first, end := part(member)
	for m := range g.N {
		if m == machine {
			continue
		}
		for t := first; t < end; t++ {
			leaves := false
			for c, e := range chosen[t*k : (t+1)*k] {
				if g.machine(e) == m {
					p.Home[(t-first)*k+c] = int32(len(p.Pass) + out)
					leaves = true
				}
			}
			if leaves {
				p.Out[out] = int32(t - first)
				p.Between[m]++
				out++
			}
		}
	}
	for to := range each {
		lo, hi := g.Experts.Part(machine*each + to)
		come = 0
		for m := range g.N {
			first, end := part(m*each + place)
			for t := first; t < end; t++ {
				here, passes := m == machine, false
				for c, e := range chosen[t*k : (t+1)*k] {
					here = here || g.machine(e) == machine
					if int(e) < lo || int(e) >= hi {
						continue
					}
					if passes = true; m == machine {
						p.Home[(t-first)*k+c] = int32(pass)
					} else {
						p.Relay[come*k+c] = int32(pass)
					}
				}
				if passes {
					if p.Pass[pass] = int32(come); m == machine {
						p.Pass[pass] = int32(-1 - (t - first))
					}
					p.Within[to]++
					pass++
				}
				if here && m != machine {
					come++
				}
			}
		}
	}
	for m := range g.N {
		if m == machine {
			continue
		}
		first, end := part(m*each + place)
		for t := first; t < end; t++ {
			for _, e := range chosen[t*k : (t+1)*k] {
				if g.machine(e) == machine {
					p.Between[g.N+m]++
					break
				}
			}
		}
	}
	for from := range each {
		for m := range g.N {
			source := m*each + from
			p.Base[source] = int32(arrive)
			first, end := part(source)
			for t := first; t < end; t++ {
				if g.Comes(chosen[t*k:(t+1)*k], member) {
					p.Within[each+from]++
					arrive++
				}
			}
		}
	}
	return out, come, pass, arrive
}

// none marks the unused end of Pass.
const none = -1 << 31

// Arrive renumbers from, the result of RowsIn in order of members, to the order of
// arrival. rows int32[members] is the result of RowsIn, and base is Passage.Base. scratch
// has one element for each row received.
func Arrive(from, rows, base, scratch []int32) {
	j := 0
	for m, n := range rows {
		for i := range n {
			scratch[j] = base[m] + i
			j++
		}
	}
	for i, j := range from {
		if j >= 0 {
			from[i] = scratch[j]
		}
	}
}
