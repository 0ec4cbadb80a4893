package environ

import (
	"fmt"
	"strconv"

	"github.com/gomoe/gomoe/internal/quoted"
)

// number is an environment variable holding a number.
type number struct {
	name string
	set  bool
	n    int
}

func (v number) String() string { return fmt.Sprintf("%s=%d", v.name, v.n) }

// text is an environment variable holding a text.
type text struct{ name, value string }

// claim is the information about this process in the variables of one convention.
type claim struct {
	name                             string
	rank, size, localRank, localSize number
	coordinator                      text   // host:port at which ranks meet
	host                             string // machine at which ranks meet, at a port derived from the job's id
	hostfile, devices                string
	sizes                            string // names of the variables with the size, for errors
}

func (c *claim) complete() bool { return c.rank.set && c.size.set }

// check returns an error if only one of rank and size is set, or if they contradict each
// other.
func (c *claim) check() error {
	switch {
	case c.rank.set && !c.size.set:
		return fmt.Errorf("environ: %s without %s: how many ranks are there? set one of these, or unset %s", c.rank, c.sizes, c.rank.name)
	case !c.rank.set && c.size.set:
		return fmt.Errorf("environ: %s without %s: which rank is this? set both, or neither", c.size, c.rank.name)
	case c.complete() && c.size.n < 1:
		return fmt.Errorf("environ: %s, want at least 1", c.size)
	case c.complete() && c.rank.n >= c.size.n:
		return fmt.Errorf("environ: %s of %s, want 0 to %d", c.rank, c.size, c.size.n-1)
	}
	return nil
}

// against returns an error if two claims state different ranks or sizes.
func (c *claim) against(d *claim) error {
	const remedy = "contradict each other; unset those that are not meant"
	switch {
	case c.rank.n != d.rank.n:
		return fmt.Errorf("environ: %s and %s %s", c.rank, d.rank, remedy)
	case c.size.n != d.size.n:
		return fmt.Errorf("environ: %s and %s %s", c.size, d.size, remedy)
	}
	return nil
}

// fill completes c with values of d. Both claims must be about the same process.
func (c *claim) fill(d *claim) {
	if !c.localRank.set || !c.localSize.set {
		c.localRank, c.localSize = d.localRank, d.localSize
	}
	if c.host == "" {
		c.host = d.host
	}
}

// reader reads variables, keeping the error of the first invalid one.
type reader struct {
	getenv func(string) string
	err    error
}

// number reads a variable holding a number from 0 to maxRanks. If the variable is not
// set, neither is the returned number.
func (r *reader) number(name string) number {
	s := r.getenv(name)
	if s == "" {
		return number{name: name}
	}
	n, err := strconv.Atoi(s)
	if (err != nil || n < 0 || n > maxRanks) && r.err == nil {
		r.err = fmt.Errorf("environ: %s=%s, want a number from 0 to %d", name, quoted.Text(s), maxRanks)
	}
	return number{name, true, n}
}

// maxRanks is the largest number accepted as a rank or a number of ranks.
const maxRanks = 1 << 20

// first returns the first of these variables that is set, or the zero text.
func (r *reader) first(names ...string) text {
	for _, n := range names {
		if v := r.getenv(n); v != "" {
			return text{n, v}
		}
	}
	return text{}
}

// file reads the number of an inherited file, 0 if there is none.
func (r *reader) file(name string) int {
	v := r.number(name)
	if v.set && v.n < 3 && r.err == nil {
		r.err = fmt.Errorf("environ: %s, want the number of an inherited file, which is 3 or more", v)
	}
	return v.n
}

func env(name string, n int) string { return name + "=" + strconv.Itoa(n) }
