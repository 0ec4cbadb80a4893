package launch

import "syscall"

// kernelKills tells that dieWithParent has an effect.
const kernelKills = true

// dieWithParent makes the kernel kill a process when the thread that started it
// ends. Run keeps its thread until all ranks have ended.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
