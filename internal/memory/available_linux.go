package memory

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// Available returns the bytes that this process can still take, and the origin of the
// limit: the machine's free memory, a control group, or the limit on the process's
// addresses (ulimit -v). A limit that cannot be read is ignored.
func Available() Limit {
	l := least(limits(os.DirFS("/")))
	var as unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &as); err == nil && as.Cur < math.MaxInt64 {
		l = least([]Limit{l, {int64(as.Cur) - addresses(os.DirFS("/")), "ulimit -v"}})
	}
	return l
}
