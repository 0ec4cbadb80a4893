package shm

import "errors"

// readMemory is for Linux; no peer is told that it can be read.
func readMemory(pid int, b []byte, at uint64) error {
	return errors.New("darwin has no call for it")
}

func allowReaders() {}
