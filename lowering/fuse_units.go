package lowering

import (
	"cmp"
	"slices"
)

// fuser is the state of the fusing pass. It updates its knowledge of units as they grow,
// so the pass takes time proportional to the number of arguments and not to the number of
// pairs of instructions.
type fuser struct {
	*Plan
	chunk   int     // see Options
	most    int     // the largest number of buffers of an instruction; 0 for no limit
	list    []Instr // the plan's instructions, with repetitions next to their readers
	foreign []bool  // per instruction of the list: whether a target leaves it to the host
	units   []*unit // per instruction: its unit
	profile *profile
	peak    int64 // the peak memory of temporaries before the pass, in bytes

	// Per buffer owning memory:
	bytes   []int64 // its size for a temporary, 0 for others
	writer  []int   // the instruction writing it, -1 for inputs
	readers [][]int // the instructions reading it, ascending
	own     []int   // number of readers in the writer's unit
	// keeper is an instruction of the unit reading the buffer last. It is set once grow
	// has inspected all readers.
	keeper []int
}

// unit is a set of instructions to fuse. It takes the place of the last of them. Its
// information about other units covers only the instructions up to the current one.
type unit struct {
	parts []int // indexes into the list, ascending once all units are complete
	at    int   // the last of the parts
	class class
	reads map[int]reading // its reads of each buffer written by another unit
	open  map[int]bool    // the buffers that it writes and other units read
	// others is the number of reads by other units of its buffers.
	others int
	// pinned marks a unit that can never be fused with one of its readers, so it cannot
	// run any later.
	pinned bool
	// later is the size in bytes of the temporaries that the unit writes and stores; dead
	// is the size of the unread ones among them.
	later, dead int64
	// kept is the size in bytes of other units' temporaries with this unit as their last
	// reader; lost are temporaries that it reads before another unit reads them last.
	kept int64
	lost []int
	// tries are the arguments with units that may be fused with this one, the first one
	// last.
	tries []try
	// bound are the buffers outside the unit that it reads or writes, if fuser.most
	// limits their number.
	bound []int
}

// reading describes the reads of a buffer by a unit.
type reading struct {
	times    int // number of parts reading it
	repeated bool
}

// try is an argument of a part, written by an instruction of the same class; place is the
// index of the argument.
type try struct {
	part, place, root int
	refused           int // number of failed attempts
}

// mostRefusals is the number of times that grow tries to fuse the unit of an argument
// before giving up. The answer may change with every other argument that is fused; in
// random programs of 300 equations it changed after up to 64 tries. The limit bounds the
// work for arguments that can never be fused.
const mostRefusals = 256

// index makes a unit of every instruction and fills the tables of buffers.
func (f *fuser) index() {
	n := len(f.Bufs)
	f.bytes, f.writer, f.readers, f.own, f.keeper = make([]int64, n), make([]int, n), make([][]int, n), make([]int, n), make([]int, n)
	for b := range f.Bufs {
		f.writer[b] = -1
		if f.Bufs[b].Storage == Temp {
			f.bytes[b] = padded(f.Bufs[b].Type.Bytes())
		}
	}
	f.units = make([]*unit, len(f.list))
	for i := range f.list {
		in := &f.list[i]
		u := &unit{parts: []int{i}, at: i, class: f.classOf(in), reads: map[int]reading{}, open: map[int]bool{}}
		u.class.foreign = f.foreign[i]
		f.units[i] = u
		// An instruction's ordering dependencies count as reads, so the pass never moves
		// them after it.
		inputs, outputs := f.roots(slices.Concat(f.inputs(in), f.after(in))), f.roots(in.Out)
		for _, r := range inputs {
			f.readers[r] = append(f.readers[r], i)
			if f.writer[r] >= 0 {
				u.reads[r] = reading{1, in.Repeat > 0}
			}
		}
		for _, r := range outputs {
			f.writer[r] = i
		}
		if f.most > 0 {
			u.bound = f.roots(slices.Concat(inputs, outputs))
		}
	}
	change := make([]int64, len(f.list)+1)
	for r, w := range f.writer {
		if w < 0 {
			continue
		}
		u, last := f.units[w], w
		u.later += f.bytes[r]
		if n := len(f.readers[r]); n > 0 {
			u.open[r], last = true, f.readers[r][n-1]
		} else {
			u.dead += f.bytes[r]
		}
		change[w] += f.bytes[r]
		change[last+1] -= f.bytes[r]
	}
	f.profile = newProfile(change)
	f.peak = f.profile.most(0, len(f.list))
}

// grow fuses the unit of instruction i with the units computing its arguments, as long as
// this is possible. It tries the arguments of the first part first, and starts over after
// every part with fused arguments.
func (f *fuser) grow(i int) {
	u := f.units[i]
	f.pass(u)
	if u.class.n == unfused {
		return
	}
	for k, r := range f.roots(f.list[i].In) {
		if w := f.writer[r]; w >= 0 && f.units[w].class == u.class {
			u.tries = append(u.tries, try{part: i, place: k, root: r})
		}
	}
	slices.Reverse(u.tries)
	part := -1 // the part with fused arguments, if there is one
	for k := len(u.tries) - 1; ; k-- {
		if part >= 0 && (k < 0 || u.tries[k].part != part) {
			k, part = len(u.tries)-1, -1
		}
		if k < 0 {
			return
		}
		t := u.tries[k]
		switch v := f.units[f.writer[t.root]]; {
		case v == u, v.pinned, t.refused == mostRefusals:
			u.tries = slices.Delete(u.tries, k, k+1)
		case f.may(v, u):
			u = f.join(v, u)
			part = t.part
			k, _ = slices.BinarySearchFunc(u.tries, t, lastFirst)
		default:
			u.tries[k].refused++
		}
	}
}

// lastFirst compares tries for the order of a unit's list.
func lastFirst(a, b try) int {
	return cmp.Or(cmp.Compare(b.part, a.part), cmp.Compare(b.place, a.place))
}

// pass updates other units for the reads of u. u has one instruction.
func (f *fuser) pass(u *unit) {
	for r := range u.reads {
		w := f.units[f.writer[r]]
		w.others++
		w.pinned = w.pinned || w.class != u.class
		if f.readers[r][len(f.readers[r])-1] > u.at {
			continue
		}
		u.kept += f.bytes[r]
		f.keeper[r] = u.at
		for _, i := range f.readers[r] {
			if x := f.units[i]; x != u && x != w && (len(x.lost) == 0 || x.lost[len(x.lost)-1] != r) {
				x.lost = append(x.lost, r)
			}
		}
	}
}

// may reports whether v, which precedes u, may run at the place of u.
func (f *fuser) may(v, u *unit) bool {
	times, never := 0, v.dead // never: bytes that are no longer stored
	for _, r := range f.between(v, u) {
		x := u.reads[r]
		if x.repeated {
			return false
		}
		times += x.times
		if f.own[r]+x.times == len(f.readers[r]) {
			never += f.bytes[r]
		}
	}
	if times < v.others || f.most > 0 && f.exceeds(v, u) {
		return false // an instruction between them reads a buffer written by v
	}
	held := v.kept // bytes that live longer
	for _, r := range v.lost {
		if f.units[f.keeper[r]] != u {
			held += f.bytes[r]
		}
	}
	return held <= never ||
		f.profile.most(v.at+1, u.at)+held-v.later <= f.peak && f.profile.most(u.at, u.at+1)+held-never <= f.peak
}

// between returns the buffers that v writes and u reads.
func (f *fuser) between(v, u *unit) []int {
	var list []int
	if len(v.open) < len(u.reads) {
		for r := range v.open {
			if _, ok := u.reads[r]; ok {
				list = append(list, r)
			}
		}
		return list
	}
	for r := range u.reads {
		if f.units[f.writer[r]] == v {
			list = append(list, r)
		}
	}
	return list
}

// exceeds reports whether v and u together would read and write more buffers than an
// instruction may.
func (f *fuser) exceeds(v, u *unit) bool { return len(f.outside(v, u, f.most+1)) > f.most }

// outside returns up to `most` of the buffers that v and u together read and write, without
// the buffers inside the combined unit.
func (f *fuser) outside(v, u *unit, most int) []int {
	var list []int
	seen := map[int]bool{}
	for _, bound := range [][]int{v.bound, u.bound} {
		for _, r := range bound {
			if seen[r] {
				continue
			}
			seen[r] = true
			if w := f.writer[r]; w >= 0 && f.Bufs[r].Storage == Temp {
				n := f.own[r]
				if f.units[w] == v {
					n += u.reads[r].times
				}
				if (f.units[w] == v || f.units[w] == u) && n == len(f.readers[r]) {
					continue
				}
			}
			if list = append(list, r); len(list) == most {
				return list
			}
		}
	}
	return list
}

// join makes v run at the place of u and returns the unit with the parts of both.
func (f *fuser) join(v, u *unit) *unit {
	x := unit{at: u.at, class: u.class, others: u.others + v.others, kept: u.kept + v.kept, tries: f.bothTries(v, u)}
	if f.most > 0 {
		x.bound = f.outside(v, u, len(f.Bufs))
	}
	var inner int64 // bytes that are no longer stored
	for _, r := range f.between(v, u) {
		n := u.reads[r].times
		delete(u.reads, r)
		x.others -= n
		if f.own[r] += n; f.own[r] == len(f.readers[r]) {
			delete(v.open, r)
			inner += f.bytes[r]
			x.kept -= f.bytes[r]
		}
	}
	x.later = u.later - u.dead + v.later - v.dead - inner
	f.profile.add(v.at, v.at+1, -v.later)
	f.profile.add(v.at+1, u.at, v.dead-v.later)
	f.profile.add(u.at, u.at+1, -inner-u.dead)
	f.profile.add(v.at+1, u.at+1, v.kept)
	for _, r := range v.lost {
		k := f.units[f.keeper[r]]
		if k == u {
			continue
		}
		f.profile.add(k.at+1, u.at+1, f.bytes[r])
		k.kept -= f.bytes[r]
		k.lost = append(k.lost, r)
		x.kept += f.bytes[r]
		f.keeper[r] = u.at
	}
	x.reads = bothMaps(u.reads, v.reads, func(a, b reading) reading { return reading{a.times + b.times, a.repeated || b.repeated} })
	x.open = bothMaps(u.open, v.open, func(a, _ bool) bool { return a })
	small := v
	if len(v.parts) > len(u.parts) {
		small, u = u, v
	}
	for _, i := range small.parts {
		f.units[i] = u
	}
	x.parts = append(u.parts, small.parts...)
	*u = x
	return u
}

// bothTries returns the tries of v and u together, in order. The tries of v precede most
// tries of u, so only the end of u's list is sorted again.
func (f *fuser) bothTries(v, u *unit) []try {
	if len(v.tries) == 0 {
		return u.tries
	}
	at, _ := slices.BinarySearchFunc(u.tries, v.tries[0], lastFirst)
	last := slices.Concat(u.tries[at:], v.tries)
	slices.SortFunc(last, lastFirst)
	return append(u.tries[:at], last...)
}

// bothMaps merges the smaller map into the larger one, which it returns. both computes
// the value of a key in both a and b.
func bothMaps[V any](a, b map[int]V, both func(a, b V) V) map[int]V {
	if len(a) < len(b) {
		a, b = b, a
	}
	for r, y := range b {
		if x, ok := a[r]; ok {
			y = both(x, y)
		}
		a[r] = y
	}
	return a
}

// inside reports whether only the parts of one fused unit write and read r.
func (f *fuser) inside(r int) bool {
	w := f.writer[r]
	return w >= 0 && f.Bufs[r].Storage == Temp && len(f.units[w].parts) > 1 && f.own[r] == len(f.readers[r])
}
