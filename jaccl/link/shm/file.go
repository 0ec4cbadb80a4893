//go:build linux || darwin

package shm

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// prefix begins the names of files holding segments. After it a name has the process's
// number, its start time, and random digits.
const prefix = "gomoe-shm-"

// life identifies a process: a later process may have the same number, but has another start.
type life struct {
	pid   int
	start uint64 // when the process started, as startOf returns it
}

// self returns the life of this process.
func self() (life, error) {
	start, running, err := startOf(os.Getpid())
	if err == nil && !running {
		err = errors.New("no such process; mount the /proc of its name space of processes")
	}
	if err != nil {
		return life{}, fmt.Errorf("when this process started: %w", err)
	}
	return life{os.Getpid(), start}, nil
}

// createFile makes a new file of the given size in dir, returning its descriptor and its
// absolute path. The name cannot be guessed. First createFile removes files left in dir
// by dead processes of this user.
func createFile(dir string, size int64) (fd int, path string, err error) {
	me, err := self()
	if err != nil {
		return -1, "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return -1, "", err
	}
	if err := sweepFiles(dir); err != nil {
		return -1, "", err
	}
	path = filepath.Join(dir, fileName(me))
	fd, err = unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return -1, "", &fs.PathError{Op: "create", Path: path, Err: err}
	}
	if err := unix.Ftruncate(fd, size); err != nil {
		return -1, "", errors.Join(&fs.PathError{Op: "truncate", Path: path, Err: err}, unix.Close(fd), os.Remove(path))
	}
	return fd, path, nil
}

func fileName(l life) string {
	var secret [16]byte
	rand.Read(secret[:])
	return fmt.Sprintf("%s%d-%d-%s", prefix, l.pid, l.start, hex.EncodeToString(secret[:]))
}

// openFile opens a peer's file. It returns an error unless the file is an ordinary file,
// owned by this user and inaccessible to others.
func openFile(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, errors.Join(&fs.PathError{Op: "stat", Path: path, Err: err}, unix.Close(fd))
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != uint32(os.Geteuid()) || st.Mode&0o077 != 0 {
		return -1, errors.Join(fmt.Errorf("%s is of user %d with mode %#o, want a file of user %d that nobody else can open", path, st.Uid, st.Mode, os.Geteuid()), unix.Close(fd))
	}
	return fd, nil
}

// sweepFiles removes the files in dir of processes of this user that have ended. There are
// such files only if a process was killed between the creation of its file and the moment
// when all ranks had mapped it.
func sweepFiles(dir string) error {
	paths, err := filepath.Glob(filepath.Join(escape(dir), prefix+"*"))
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	for _, path := range paths {
		l, ok := ownerOf(filepath.Base(path))
		if !ok {
			continue
		}
		var st unix.Stat_t
		if unix.Lstat(path, &st) != nil || st.Uid != uint32(os.Geteuid()) || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		start, running, err := startOf(l.pid)
		if err != nil || running && start == l.start {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("a file that process %d has left: %w", l.pid, err)
		}
	}
	return nil
}

// escape returns a pattern for filepath.Glob that matches dir alone.
func escape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}

// ownerOf returns the process encoded in the name of a file; false if there is none.
func ownerOf(name string) (life, bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	parts := strings.Split(rest, "-")
	if !ok || len(parts) != 3 {
		return life{}, false
	}
	pid, err1 := strconv.Atoi(parts[0])
	start, err2 := strconv.ParseUint(parts[1], 10, 64)
	return life{pid, start}, err1 == nil && err2 == nil && pid > 0
}

// room returns the number of bytes left in the file system of fd, and its size in bytes.
func room(fd int) (left, size int64, err error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil
}
