package shm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// seals fix a segment's size for ever, so that memory mapped by a peer cannot be
// truncated.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// step is the amount of memory requested by one system call: if a signal interrupts the
// call, the kernel undoes the whole call.
const step = 64 << 20

// create makes a segment of the given size, taking no memory yet. If dir is empty, the
// segment has no name: the system frees it when the last process that has it open ends,
// and peers open it as a descriptor of this process.
func create(dir string, size int64) (fd int, path string, err error) {
	if dir != "" {
		return createFile(dir, size)
	}
	const noExec = 8 // MFD_NOEXEC_SEAL, of Linux 6.3
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	if fd, err = unix.MemfdCreate("gomoe-shm", flags|noExec); errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate("gomoe-shm", flags)
	}
	if err != nil {
		return -1, "", fmt.Errorf("memfd_create: %w", err)
	}
	if err = unix.Ftruncate(fd, size); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		return -1, "", errors.Join(fmt.Errorf("%d bytes of memory: %w", size, err), unix.Close(fd))
	}
	return fd, "", nil
}

// open opens a peer's segment.
func open(a announcement) (int, error) {
	if a.Path != "" {
		return openFile(a.Path)
	}
	path := fmt.Sprintf("/proc/%d/fd/%d", a.Pid, a.FD)
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w; run all ranks as one user, with the /proc of their own name space of processes", path, err)
	}
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || got&seals != seals {
		return -1, errors.Join(fmt.Errorf("%s is memory with seals %#x, want %#x", path, got, seals), err, unix.Close(fd))
	}
	return fd, nil
}

// commit takes memory from the system for n bytes of a segment at offset at, so that
// later writes there cannot fail.
func commit(fd int, at, n int64) error {
	for done := int64(0); done < n; {
		err := unix.Fallocate(fd, 0, at+done, min(step, n-done))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			if undone := unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, n); undone != nil {
				err = errors.Join(err, undone)
			}
			return err
		}
		done += min(step, n-done)
	}
	return nil
}
