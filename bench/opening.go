package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/gomoe/gomoe/generate"
)

// firstToken is the report of a process after opening a model and generating a token.
type firstToken struct {
	Resident int64 `json:"resident"` // resident bytes of its own, excluding the mapped file and the planned caches
}

// opening starts a process that opens the file and generates a token; the time includes starting it.
func (l llm) opening(threads int) (*subject, error) {
	s, err := l.subject(threads, 1, func(*opened, *rand.Rand) error { return nil })
	if err != nil {
		return nil, err
	}
	if err := s.close(); err != nil { // the other processes need the memory
		return nil, err
	}
	s.close = func() error { return nil }
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var last firstToken
	s.step = func() error {
		cmd := exec.Command(exe, "-first", s.file)
		cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", threads))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("bench: opening %s: %w", s.file, err)
		}
		return json.Unmarshal(out, &last)
	}
	s.resident = func() int64 { return last.Resident }
	return s, s.step()
}

// first opens a file, generates a token, and writes a firstToken.
func first(path string, out io.Writer) error {
	o, err := openModel(path, 1)
	if err != nil {
		return err
	}
	defer o.Close()
	if err := complete(o.g, generate.Request{Prompt: []int32{300}, N: 1}); err != nil {
		return err
	}
	var f firstToken
	if own := ownMemory(); own > 0 {
		f.Resident = max(0, own-o.g.Memory().Caches)
	}
	return json.NewEncoder(out).Encode(f)
}

// ownMemory returns the resident bytes of this process excluding mapped files, 0 if the system does not report them.
func ownMemory() int64 {
	if runtime.GOOS != "linux" {
		return 0
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(status) {
		if fields := bytes.Fields(line); len(fields) == 3 && string(fields[0]) == "RssAnon:" {
			kib, err := strconv.ParseInt(string(fields[1]), 10, 64)
			if err == nil {
				return kib << 10
			}
		}
	}
	return 0
}
