package kernel

import "syscall"

// permitTiles asks Linux for the registers that hold tiles, 8 KiB of each
// thread's state, which it gives only to those who ask. It is for the whole
// process and for good; asking again does nothing.
//
// Source: Linux, Documentation/arch/x86/xstate.rst.
func permitTiles() bool {
	const requestPermission, tileData = 0x1023, 18
	_, _, errno := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return errno == 0
}
