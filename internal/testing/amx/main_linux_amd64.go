package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "amx: name a program and its arguments")
		os.Exit(2)
	}
	status, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "amx:", err)
		os.Exit(1)
	}
	os.Exit(status)
}

// run runs a program under a trace, returning its exit status when it has ended, 128 plus
// the signal's number if a signal ended it. Its children are traced as well.
func run(args []string) (int, error) {
	runtime.LockOSThread() // all requests about a traced thread must come from the tracing thread
	path, err := exec.LookPath(args[0])
	if err != nil {
		return 0, err
	}
	p, err := os.StartProcess(path, args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &unix.SysProcAttr{Ptrace: true},
	})
	if err != nil {
		return 0, err
	}
	t := tracer{threads: map[int]*tiles{}}
	var status unix.WaitStatus
	if _, err := wait(p.Pid, &status); err != nil {
		return 0, err
	}
	const options = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_EXITKILL
	if err := unix.PtraceSetOptions(p.Pid, options); err != nil {
		return 0, err
	}
	if err := unix.PtraceCont(p.Pid, 0); err != nil {
		return 0, err
	}
	for {
		id, err := wait(-1, &status)
		if err != nil {
			return 0, err
		}
		switch {
		case status.Exited() || status.Signaled():
			delete(t.threads, id)
			if id != p.Pid {
				continue
			}
			if status.Signaled() {
				return 128 + int(status.Signal()), nil
			}
			return status.ExitStatus(), nil
		case status.Stopped():
			signal := t.stopped(id, status)
			if err := unix.PtraceCont(id, signal); err != nil && !errors.Is(err, unix.ESRCH) { // it may have been killed
				return 0, err
			}
		}
	}
}

func wait(id int, status *unix.WaitStatus) (int, error) {
	for {
		got, err := unix.Wait4(id, status, unix.WALL, nil)
		if !errors.Is(err, unix.EINTR) {
			return got, err
		}
	}
}

type tracer struct {
	threads map[int]*tiles
}

// stopped handles a stop of a thread, returning the signal with which it continues.
func (t *tracer) stopped(id int, status unix.WaitStatus) int {
	signal := status.StopSignal()
	first := t.threads[id] == nil
	if first {
		t.threads[id] = &tiles{}
	}
	switch {
	case signal == unix.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_EXEC:
		t.threads[id] = &tiles{}
		return 0
	case signal == unix.SIGTRAP && status.TrapCause() > 0: // a new thread or process
		return 0
	case signal == unix.SIGSTOP && first: // the first stop of a new thread
		return 0
	case signal == unix.SIGILL && t.emulated(id):
		return 0
	}
	return int(signal)
}

// emulated computes the AMX instruction at which the thread has stopped, and AMX
// instructions directly after it. It reports whether there was one.
func (t *tracer) emulated(id int) bool {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(id, &regs); err != nil {
		return false
	}
	m := process(id)
	var code [256]byte
	n, err := m.readSome(regs.Rip, code[:])
	if err != nil {
		return false
	}
	done := 0
	for done < n {
		i, err := decode(code[done:n])
		if err != nil {
			if done == 0 {
				fmt.Fprintln(os.Stderr, "amx:", err)
			}
			break
		}
		stride := register(&regs, i.index) << i.scale
		address := register(&regs, i.base) + uint64(i.disp)
		if err := t.threads[id].do(i, address, stride, m); err != nil {
			fmt.Fprintf(os.Stderr, "amx: at %#x: %v\n", regs.Rip+uint64(done), err)
			return false
		}
		done += i.length
	}
	if done == 0 {
		return false
	}
	regs.Rip += uint64(done)
	return unix.PtraceSetRegs(id, &regs) == nil
}

// register returns a register by its number in machine code, or 0 for -1.
func register(r *unix.PtraceRegs, number int) uint64 {
	if number < 0 {
		return 0
	}
	return [...]uint64{r.Rax, r.Rcx, r.Rdx, r.Rbx, r.Rsp, r.Rbp, r.Rsi, r.Rdi, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15}[number]
}

// process is the memory of the process of a thread.
type process int

func (p process) read(address uint64, b []byte) error {
	n, err := p.readSome(address, b)
	if err == nil && n < len(b) {
		err = fmt.Errorf("memory at %#x ends after %d bytes, want %d", address, n, len(b))
	}
	return err
}

func (p process) readSome(address uint64, b []byte) (int, error) {
	n, err := unix.ProcessVMReadv(int(p), iovec(b), []unix.RemoteIovec{{Base: uintptr(address), Len: len(b)}}, 0)
	if err != nil {
		return 0, fmt.Errorf("reading %d bytes at %#x: %w", len(b), address, err)
	}
	return n, nil
}

func (p process) write(address uint64, b []byte) error {
	b = slices.Clone(b)
	n, err := unix.ProcessVMWritev(int(p), iovec(b), []unix.RemoteIovec{{Base: uintptr(address), Len: len(b)}}, 0)
	if err != nil || n < len(b) {
		return fmt.Errorf("writing %d bytes at %#x: %d written, %w", len(b), address, n, err)
	}
	return nil
}

func iovec(b []byte) []unix.Iovec {
	v := []unix.Iovec{{Base: &b[0]}}
	v[0].SetLen(len(b))
	return v
}
