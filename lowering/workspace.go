package lowering

import "github.com/gomoe/gomoe/exec"

// Workspace is memory in bytes that a kernel takes beside its arguments and results.
type Workspace struct {
	// Shared is what it takes of exec.Args.Scratch.
	Shared int64
	// OnThreads returns what each thread takes, by buffer, and how many threads work
	// where a kernel may keep so many busy. What one instruction leaves in a buffer
	// serves all later ones that have a buffer of that name. nil is nothing.
	OnThreads func(threads int) (each map[string]int64, busy int)
}

// workspaceLeast is the size in bytes from which on a workspace is counted.
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

// workspace returns what the kernels of a rank take beside their arguments if they may
// keep so many threads busy.
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

// NewScratch returns memory of which the plan's kernels take none anew, as far as it is
// known what they take.
func (p *Plan) NewScratch() *exec.Scratch { return exec.NewScratch(padded(p.shared())) }
