package kernel

import "syscall"

// permitTiles asks Linux for permission to use the registers holding tiles. They are 8
// KiB of each thread's state, so Linux grants them only on request. The permission is for
// the whole process and stays; repeating the request does nothing.
//
// Source: Linux, Documentation/arch/x86/xstate.rst.
func permitTiles() bool {
	const requestPermission, tileData = 0x1023, 18
	_, _, errno := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return errno == 0
}
