package environ

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
)

func (r *reader) gomoe() claim {
	return claim{
		name: "gomoe", sizes: gomoeSize,
		rank: r.rank(gomoeRank, gomoeSize), size: r.number(gomoeSize),
		localRank: r.number(gomoeLocalRank), localSize: r.number(gomoeLocalSize),
	}
}

// rank reads a rank that comes with a number of ranks. If only the latter is set, the
// rank is the pod's number in an indexed Job of Kubernetes, which does not tell its pods
// their number.
func (r *reader) rank(name, size string) number {
	if r.getenv(name) == "" && r.getenv(size) != "" {
		name = r.name(name, podIndex)
	}
	return r.number(name)
}

func (r *reader) torch() claim {
	return claim{
		name: "torch", sizes: "WORLD_SIZE",
		rank: r.rank("RANK", "WORLD_SIZE"), size: r.number("WORLD_SIZE"),
		localRank: r.number("LOCAL_RANK"), localSize: r.number("LOCAL_WORLD_SIZE"),
	}
}

func (r *reader) ompi() claim {
	return claim{
		name: "ompi", sizes: "OMPI_COMM_WORLD_SIZE",
		rank: r.number("OMPI_COMM_WORLD_RANK"), size: r.number("OMPI_COMM_WORLD_SIZE"),
		localRank: r.number("OMPI_COMM_WORLD_LOCAL_RANK"), localSize: r.number("OMPI_COMM_WORLD_LOCAL_SIZE"),
	}
}

func (r *reader) pmi() claim {
	return claim{
		name: "pmi", sizes: "PMI_SIZE",
		rank: r.number("PMI_RANK"), size: r.number("PMI_SIZE"),
		localRank: r.number("MPI_LOCALRANKID"), localSize: r.number("MPI_LOCALNRANKS"),
	}
}

// mlx reads the variables of mlx.launch. The number of ranks is MLX_WORLD_SIZE or the
// number of entries in MLX's files; if both are present, they must agree.
func (r *reader) mlx() claim {
	c := claim{name: "mlx", sizes: "MLX_HOSTFILE, MLX_IBV_DEVICES or MLX_WORLD_SIZE"}
	c.rank = r.number(r.name("MLX_RANK", "JACCL_RANK", "MLX_RANK"))
	c.coordinator = r.first("JACCL_COORDINATOR", "MLX_JACCL_COORDINATOR")
	ring := r.first("JACCL_RING", "MLX_JACCL_RING")
	devices, nodes := r.first("JACCL_IBV_DEVICES", "MLX_IBV_DEVICES"), r.first("MLX_HOSTFILE")
	c.devices, c.hostfile = devices.value, nodes.value
	if ring.value != "" && devices.value != "" && c.rank.set && r.err == nil {
		r.err = fmt.Errorf("environ: %s is set, which asks for JACCL's ring: only its mesh is spoken here; connect all ranks with each other and unset it, or start MLX's ring over TCP with --backend ring", ring.name)
	}
	if v := r.number("MLX_WORLD_SIZE"); v.set {
		c.size = v
	}
	for _, f := range []text{nodes, devices} {
		if f.value == "" || r.err != nil || !c.rank.set {
			continue
		}
		rows, err := r.rows(f)
		if err != nil {
			r.err = err
			continue
		}
		size := number{"ranks in " + f.name, true, len(rows)}
		if c.size.set && c.size.n != size.n {
			r.err = fmt.Errorf("environ: %s (%s) and %s contradict each other; are the files those of this job?", size, f.value, c.size)
			continue
		}
		c.size = size
		if f == nodes && c.coordinator.value == "" {
			var addresses []string
			if err := strictjson.UnmarshalOnce(rows[0], &addresses); err != nil || len(addresses) == 0 || addresses[0] == "" {
				r.err = fmt.Errorf(`environ: %s=%s: the first entry is %s, want a list of "address:port"`, f.name, f.value, quoted.Plain(rows[0]))
				continue
			}
			c.coordinator = text{"MLX_HOSTFILE's first address", addresses[0]}
		}
	}
	// Without a rank, MLX_WORLD_SIZE may be meant for something else. The files and the
	// coordinator's address are given to ranks of mlx.launch only, so one of them without
	// a rank is a mistake.
	if !c.rank.set {
		c.size = number{}
		for _, f := range []text{nodes, devices, c.coordinator} {
			if f.value != "" && r.err == nil {
				r.err = fmt.Errorf("environ: %s=%s without MLX_RANK: which rank is this? set both, or neither", f.name, quoted.Plain(f.value))
			}
		}
	}
	return c
}

// name returns the name of the first of these variables that is set, or fallback.
func (r *reader) name(fallback string, names ...string) string {
	if v := r.first(names...); v.name != "" {
		return v.name
	}
	return fallback
}

// rows returns the entries of a JSON file that is a list.
func (r *reader) rows(f text) ([]json.RawMessage, error) {
	data, err := readFile(f.name, f.value)
	if err != nil {
		return nil, err
	}
	var rows []json.RawMessage
	switch err := strictjson.UnmarshalOnce(data, &rows); {
	case err != nil:
		return nil, fmt.Errorf("environ: %s=%s: %v, want a JSON list with an entry per rank", f.name, f.value, err)
	case len(rows) == 0:
		return nil, fmt.Errorf("environ: %s=%s: an empty list, want an entry per rank", f.name, f.value)
	}
	return rows, nil
}

// slurm reads the variables of srun. The shells and scripts of an allocation have
// these variables, too, and are not ranks: they have no step, or a step with a number
// from lastStep on.
func (r *reader) slurm() claim {
	c := claim{name: "slurm", sizes: "SLURM_STEP_NUM_TASKS"}
	step, err := strconv.ParseUint(r.getenv("SLURM_STEP_ID"), 10, 32)
	if err != nil || step >= lastStep {
		return c
	}
	c.rank = r.number("SLURM_PROCID")
	c.size = r.number(r.name("SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"))
	if !c.complete() {
		c.rank, c.size = number{}, number{}
		return c
	}
	if nodes := r.number("SLURM_STEP_NUM_NODES"); nodes.set && nodes.n == 1 {
		c.localRank = r.number("SLURM_LOCALID")
		c.localSize = number{c.size.name, true, c.size.n}
		return c
	}
	c.host = firstNode(r.getenv("SLURM_STEP_NODELIST"))
	return c
}

// lastStep is the first of the numbers that Slurm gives to its own steps: batch
// scripts and interactive shells.
const lastStep = 0xfffffff0

// firstNode returns the first machine of a list in Slurm's notation: a of "a,b", n01 of
// "n[01-04,7],m". It returns the empty text if it cannot read the list.
func firstNode(list string) string {
	head, rest, bracket := strings.Cut(list, "[")
	if i := strings.IndexByte(head, ','); i >= 0 {
		return head[:i]
	}
	if !bracket {
		return head
	}
	inside, tail, ok := strings.Cut(rest, "]")
	end := strings.IndexAny(inside, "-,")
	if end >= 0 {
		inside = inside[:end]
	}
	if i := strings.IndexByte(tail, ','); i >= 0 {
		tail = tail[:i]
	}
	if !ok || inside == "" || strings.Contains(tail, "[") {
		return ""
	}
	return head + inside + tail
}

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
