package launch

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// group is a job object. Its processes end when its last handle, held by the launcher, is
// closed.
type group struct {
	guard *guard
	mu    sync.Mutex
	job   windows.Handle
	pid   uint32
	later *time.Timer
}

func (g *group) prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// started puts the process into the job. Processes started by it earlier are not in the
// job.
func (g *group) started(cmd *exec.Cmd) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pid = uint32(cmd.Process.Pid)
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return
	}
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err == nil {
		var p windows.Handle
		if p, err = windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, g.pid); err == nil {
			err = windows.AssignProcessToJobObject(job, p)
			windows.CloseHandle(p)
		}
	}
	if err != nil {
		windows.CloseHandle(job)
		return
	}
	g.job = job
}

// signal sends Ctrl-Break, the only signal that can be sent to a group of
// processes; a kill ends the job object.
func (g *group) signal(s os.Signal) {
	if s == os.Kill {
		g.end()
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pid != 0 {
		windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, g.pid)
	}
}

func (g *group) signalLater(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.later == nil && g.pid != 0 {
		g.later = time.AfterFunc(d, g.end)
	}
}

func (g *group) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.job != 0:
		windows.TerminateJobObject(g.job, 1)
	case g.pid != 0:
		if p, err := windows.OpenProcess(windows.PROCESS_TERMINATE, false, g.pid); err == nil {
			windows.TerminateProcess(p, 1)
			windows.CloseHandle(p)
		}
	}
}

func (g *group) gone() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.later != nil {
		g.later.Stop()
	}
	if g.job != 0 {
		windows.CloseHandle(g.job)
	}
	g.job, g.pid = 0, 0
}

func endedBy(*os.ProcessState) (int, string) { return 0, "" }

func signalName(s os.Signal) string {
	switch s {
	case os.Interrupt:
		return "INT"
	case os.Kill:
		return "KILL"
	}
	return "TERM"
}

// inherits tells that processes cannot inherit open files.
const inherits = false

// guard is not needed: the system ends a job object when its last handle is
// closed.
type guard struct{}

func newGuard(string) (*guard, error) { return &guard{}, nil }
func (*guard) close()                 {}
