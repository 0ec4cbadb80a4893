package tensor

import "golang.org/x/sys/unix"

// noReserve keeps the system from counting a mapped file as memory that will be written.
const noReserve = unix.MAP_NORESERVE
