package tensor

import "golang.org/x/sys/unix"

// noReserve keeps the system from accounting for a mapped file as memory to be written.
const noReserve = unix.MAP_NORESERVE
