package meet

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// thisMachine identifies the kernel by the id that it draws at boot, and within
// it the name spaces: containers on one machine have one kernel and may have
// their own /dev/shm, processes and network. A mounted /dev/shm is told from
// another by its device number.
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
