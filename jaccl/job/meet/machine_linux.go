package meet

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// thisMachine identifies the kernel by its boot id, and the name spaces within the
// kernel: containers on one machine share a kernel, but each may have its own /dev/shm,
// processes and network. A /dev/shm is identified by the numbers of its device and inode.
func thisMachine() machine {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return machine{network: hostname()}
	}
	m := machine{boot: strings.TrimSpace(string(id))}
	m.network, err = os.Readlink("/proc/self/ns/net")
	if err != nil {
		m.network = hostname()
	}
	var st unix.Stat_t
	if unix.Stat("/dev/shm", &st) != nil {
		return m
	}
	pids, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return m
	}
	m.memory = fmt.Sprintf("%d %d %s", st.Dev, st.Ino, pids)
	return m
}
