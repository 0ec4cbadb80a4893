package whole

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// unnamed returns a new file without a name in the folder. Nothing is left of it if the
// process is killed. It is an error if the file system has no such files, or if there is
// no /proc, which is needed to name the file.
func unnamed(root *os.Root) (*os.File, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	fd, err := unix.Openat(int(dir.Fd()), ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o666)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "unnamed")
	if _, err := os.Stat(proc(f)); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func proc(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// link gives an unnamed file a name in the folder.
func link(f *os.File, root *os.Root, name string) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return unix.Linkat(unix.AT_FDCWD, proc(f), int(dir.Fd()), name, unix.AT_SYMLINK_FOLLOW)
}
