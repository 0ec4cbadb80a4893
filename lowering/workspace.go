package lowering

import "github.com/gomoe/gomoe/exec"

// Workspace is memory in bytes that a kernel takes beside its arguments and results.
type Workspace struct {
	// Shared is what the kernel takes of exec.Args.Scratch.
	Shared int64
	// OnThreads returns what each thread takes, by the name of the buffer, and how many
	// threads work if the kernel may use this many. Instructions that name the same
	// buffer share its memory. nil means that threads take nothing.
	OnThreads func(threads int) (each map[string]int64, busy int)
}

// workspaceLeast is the least size in bytes of a workspace that is counted.
const workspaceLeast = 8 << 10

// shared returns the most scratch memory that a kernel of the plan takes.
func (p *Plan) shared() int64 {
	var most int64
	for i := range p.Instrs {
		if n := p.Instrs[i].Workspace.Shared; n >= workspaceLeast {
			most = max(most, n)
		}
	}
	return most
}

// workspace returns the bytes that the kernels of a rank take beside their arguments if
// they may use this many threads.
func (p *Plan) workspace(threads int) int64 {
	buffers := map[string]int64{}
	for i := range p.Instrs {
		f := p.Instrs[i].Workspace.OnThreads
		if f == nil {
			continue
		}
		each, busy := f(max(threads, 1))
		var sum int64
		for _, n := range each {
			sum = plus(sum, n)
		}
		if sum < workspaceLeast {
			continue
		}
		for name, n := range each {
			buffers[name] = max(buffers[name], n*int64(busy))
		}
	}
	sum := padded(p.shared())
	for _, n := range buffers {
		sum = plus(sum, n)
	}
	return sum
}

// NewScratch returns scratch memory that is large enough for the plan's kernels, as far
// as it is known what they take.
func (p *Plan) NewScratch() *exec.Scratch { return exec.NewScratch(padded(p.shared())) }
