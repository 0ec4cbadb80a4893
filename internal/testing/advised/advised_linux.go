// Package advised reports the memory advice given to the system.
package advised

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"unsafe"
)

// Huge reports whether the system has been asked to hold the first byte of mem in a large
// page. It is false if the system does not report it.
//
// Source: proc_pid_smaps(5): the flag hg of VmFlags.
func Huge(mem []byte) bool {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return false
	}
	defer f.Close()
	at, within := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))), false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var from, to uint64
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &from, &to); n == 2 {
			within = from <= at && at < to
		}
		if flags, ok := strings.CutPrefix(lines.Text(), "VmFlags:"); ok && within {
			return strings.Contains(flags+" ", " hg ")
		}
	}
	return false
}

// System reports whether the kernel was built with large pages.
func System() bool {
	_, err := os.Stat("/sys/kernel/mm/transparent_hugepage")
	return err == nil
}
