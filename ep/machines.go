package ep

// Machines is a group whose members lie on several machines: as many on each, neighbours in the
// group. A row travels once to each machine that has experts for its token, to the member there
// with the same place as the row's own member has, and that member passes it on to the members of
// its machine that have experts for it. Rows for the own machine are passed on by their own member.
//
// As Group's functions do, the functions below compute what travels from chosen int32[T,k], the
// expert of each pair that is kept, and -1 for all other pairs.
type Machines struct {
	Group
	N int // machines
}

// each returns the number of members of a machine.
func (g Machines) each() int { return len(g.Sources) / g.N }

// machine returns the machine that has expert e, -1 for e = -1.
func (g Machines) machine(e int32) int {
	if e < 0 {
		return -1
	}
	return g.Experts.Owner(int(e)) / g.each()
}

// Passage is which rows travel from a member, through it and to it.
type Passage struct {
	// Out are the tokens of the member whose rows leave for other machines, by machine and then in
	// token order.
	Out []int32
	// Pass are the rows that the member passes on, by member of its machine, then by the machine of
	// the row's own member, then in token order. Number j ≥ 0 is the j-th row that has come from
	// other machines, and -1-t the row of the member's own token t.
	Pass []int32
	// Home int32[tokens of the member,k] is for every pair the row that comes home for it: a number
	// of Pass for pairs of the own machine, len(Pass) and a number of Out for others, -1 for a pair
	// that is not kept. Relay int32[rows that come from other machines,k] has a number of Pass for
	// the pairs of this machine, and -1.
	Home, Relay []int32
	// Between int32[2,machines] is how many rows leave for each machine and how many come from it,
	// and Within int32[2,members of a machine] how many are passed on to each member and how many
	// come from it.
	Between, Within []int32
	// Base int32[members] is the number of rows that arrive at the member before those of each
	// other member.
	Base []int32
}

// Room is the lengths of what a Passage has, for a group whose members have tokens of k choices, at
// most `most` of them each, in rows: those that leave a member for other machines, those that come
// from there, and those that a member passes on.
func (g Machines) Room(most, k int) (out, come, pass int) {
	return most * min(k, g.N-1), most * (g.N - 1), most * g.N * min(k, g.each())
}

// Find sets what p has room for: the rows that travel from, through and to member. tokens has a part
// of chosen for each source. Behind the rows of Out there is -1, and of Pass a number that is none:
// the lowest int32. It returns the numbers of rows that leave for other machines, that come from
// there, that are passed on, and that arrive.
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

// none is the number behind the last row that is passed on.
const none = -1 << 31

// Arrive changes from, which RowsIn has set and which numbers rows by member, to the order in which
// rows arrive: rows int32[members] is what RowsIn has set, and base is that of Passage. scratch has
// room for a number for each row that arrives.
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
