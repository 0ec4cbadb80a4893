package lowering

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomoe/gomoe/graph"
)

// TestUnitsAsDefined compares the units of random plans with those of plainFuser, which
// looks at all instructions again for every rule of fuse.
func TestUnitsAsDefined(t *testing.T) {
	joined := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 9))
		p := flat(r, 10+r.IntN(60))
		most := []int{0, 0, 4, 6, 9}[r.IntN(5)]
		foreign := make([]bool, len(p.Instrs))
		for i := range foreign {
			foreign[i] = seed%4 == 0 && r.IntN(8) == 0
		}
		fast, slow := &fuser{Plan: p, most: most, foreign: foreign}, &plainFuser{Plan: p, most: most, foreign: foreign}
		fast.list, slow.list = p.Instrs, p.Instrs
		fast.index()
		slow.index()
		for i := range p.Instrs {
			fast.grow(i)
			slow.grow(slow.units[i])
			for k := range p.Instrs {
				got, want := slices.Sorted(slices.Values(fast.units[k].parts)), slow.units[k].parts
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d, after instruction %d: instruction %d is in %v, want %v of\n%s", seed, i, k, got, want, p)
				}
			}
			slow.measure()
			for k, want := range slow.profile {
				if got := fast.profile.most(k, k+1); got != want {
					t.Fatalf("seed %d, after instruction %d: %d bytes in use at instruction %d, want %d of\n%s", seed, i, got, k, want, p)
				}
			}
		}
		for _, u := range fast.units {
			joined = max(joined, len(u.parts))
		}
	}
	if joined < 20 {
		t.Errorf("the largest unit has %d parts, want plans that are fused", joined)
	}
}

// flat returns a plan of n instructions, most of which can be fused, over buffers of two
// sizes.
func flat(r *rand.Rand, n int) *Plan {
	p := &Plan{Name: "flat"}
	pools := [2][]int{} // by size
	buf := func(size int, s Storage) int {
		p.Bufs = append(p.Bufs, Buffer{Type: graph.T(graph.F32, 16+16*size), Storage: s})
		pools[size] = append(pools[size], len(p.Bufs)-1)
		return len(p.Bufs) - 1
	}
	for i := range 4 {
		buf(i%2, Input)
	}
	near, foreign, results := 1+r.IntN(20), r.IntN(40), r.IntN(30)
	for i := range n {
		size := r.IntN(4) / 3
		in := Instr{Op: named(fmt.Sprintf("k%d", i)), Zones: -1, Host: Host{Flat: r.IntN(100) >= foreign}}
		for range 1 + r.IntN(4) {
			from := pools[size]
			if !in.Flat {
				from = pools[r.IntN(2)]
			}
			k := len(from) - 1
			if r.IntN(4) > 0 {
				k -= r.IntN(min(near, len(from)))
			} else {
				k -= r.IntN(len(from))
			}
			in.In = append(in.In, from[k])
		}
		if in.Flat && r.IntN(10) == 0 {
			in.Repeat = 1
		}
		for range 1 + r.IntN(5)/4 {
			s := Temp
			if r.IntN(100) < results {
				s = Output
			}
			in.Out = append(in.Out, buf(size, s))
		}
		p.Instrs = append(p.Instrs, in)
	}
	return p
}

// plainFuser fuses as the rules say, in time that grows with the cube of the plan's length.
type plainFuser struct {
	*Plan
	most    int
	list    []Instr
	foreign []bool
	units   []*plainUnit
	reads   map[int][]int // the instructions that read a root buffer
	writes  map[int][]int
	peak    int64
	profile []int64
}

type plainUnit struct{ parts []int } // ascending

func (u *plainUnit) at() int { return u.parts[len(u.parts)-1] }

func (f *plainFuser) class(u *plainUnit) class {
	c := f.classOf(&f.list[u.at()])
	c.foreign = f.foreign[u.at()]
	return c
}

func (f *plainFuser) index() {
	f.reads, f.writes = map[int][]int{}, map[int][]int{}
	for i := range f.list {
		in := &f.list[i]
		f.units = append(f.units, &plainUnit{[]int{i}})
		for _, r := range f.roots(f.inputs(in)) {
			f.reads[r] = append(f.reads[r], i)
		}
		for _, r := range f.roots(in.Out) {
			f.writes[r] = append(f.writes[r], i)
		}
	}
	f.measure()
	for _, n := range f.profile {
		f.peak = max(f.peak, n)
	}
}

// grow joins u with the units that compute its arguments, as long as there is
// one with which it may be joined.
func (f *plainFuser) grow(u *plainUnit) {
	c := f.class(u)
	if c.n == unfused {
		return
	}
	for joined := true; joined; {
		joined = false
		for _, i := range u.parts {
			for _, r := range f.roots(f.list[i].In) {
				w := f.writes[r]
				if len(w) != 1 || f.units[w[0]] == u {
					continue
				}
				v := f.units[w[0]]
				if f.class(v) == c && f.may(v, u) {
					f.join(v, u)
					joined = true
				}
			}
			if joined {
				break
			}
		}
	}
}

func (f *plainFuser) join(v, u *plainUnit) {
	u.parts = append(u.parts, v.parts...)
	slices.Sort(u.parts)
	for _, i := range v.parts {
		f.units[i] = u
	}
	f.profile = nil
}

// may reports whether v, which stands before u, may run where u does.
func (f *plainFuser) may(v, u *plainUnit) bool {
	between := func(i int) bool {
		x := f.units[i]
		return x != v && x != u && v.at() < x.at() && x.at() < u.at()
	}
	var in, out []int
	for _, i := range v.parts {
		in = append(in, f.inputs(&f.list[i])...)
		out = append(out, f.list[i].Out...)
	}
	in, out = f.roots(in), f.roots(out)
	if f.most > 0 && f.bound(v, u) > f.most {
		return false
	}
	for _, r := range out {
		repeated := func(i int) bool { return f.units[i] == u && f.list[i].Repeat > 0 }
		if len(f.writes[r]) > 1 || slices.ContainsFunc(f.reads[r], between) || slices.ContainsFunc(f.reads[r], repeated) {
			return false
		}
	}
	var held int64 // the bytes that are kept longer
	for _, r := range in {
		if slices.ContainsFunc(f.writes[r], between) {
			return false
		}
		if f.Bufs[r].Storage == Temp && !slices.Contains(out, r) && f.last(r) < u.at() {
			held += padded(f.Bufs[r].Type.Bytes())
		}
	}
	var later, never int64 // the bytes that are written later, and those of them no longer stored
	for _, r := range out {
		if f.Bufs[r].Storage != Temp || f.inside(r) {
			continue
		}
		n := padded(f.Bufs[r].Type.Bytes())
		later += n
		if !slices.ContainsFunc(f.reads[r], func(i int) bool { return f.units[i] != u && f.units[i] != v }) {
			never += n
		}
	}
	if held <= never {
		return true
	}
	if f.profile == nil {
		f.measure()
	}
	for at := v.at() + 1; at < u.at(); at++ {
		if f.profile[at]+held-later > f.peak {
			return false
		}
	}
	return f.profile[u.at()]+held-never <= f.peak
}

// bound returns how many buffers v and u together read and write, without those that
// would be inside.
func (f *plainFuser) bound(v, u *plainUnit) int {
	var all []int
	for _, x := range []*plainUnit{v, u} {
		for _, i := range x.parts {
			all = append(append(all, f.inputs(&f.list[i])...), f.list[i].Out...)
		}
	}
	n := 0
	for _, r := range f.roots(all) {
		outside := func(i int) bool { return f.units[i] != v && f.units[i] != u }
		w := f.writes[r]
		if f.Bufs[r].Storage != Temp || len(w) != 1 || outside(w[0]) || slices.ContainsFunc(f.reads[r], outside) {
			n++
		}
	}
	return n
}

// last returns the last instruction that reads r.
func (f *plainFuser) last(r int) int {
	at := -1
	for _, i := range f.reads[r] {
		at = max(at, f.units[i].at())
	}
	return at
}

// measure finds how much memory temporaries take at every instruction.
func (f *plainFuser) measure() {
	change := make([]int64, len(f.list)+1)
	for r, w := range f.writes {
		if f.Bufs[r].Storage != Temp {
			continue
		}
		def := len(f.list)
		for _, i := range w {
			def = min(def, f.units[i].at())
		}
		last := max(def, f.last(r))
		if f.inside(r) {
			continue
		}
		change[def] += padded(f.Bufs[r].Type.Bytes())
		change[last+1] -= padded(f.Bufs[r].Type.Bytes())
	}
	f.profile = make([]int64, len(f.list))
	var sum int64
	for i := range f.profile {
		sum += change[i]
		f.profile[i] = sum
	}
}

// inside reports whether only the parts of one fused unit write r and
// read it.
func (f *plainFuser) inside(r int) bool {
	if f.Bufs[r].Storage != Temp || len(f.writes[r]) != 1 {
		return false
	}
	u := f.units[f.writes[r][0]]
	return len(u.parts) > 1 && !slices.ContainsFunc(f.reads[r], func(i int) bool { return f.units[i] != u })
}
