package emu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// ErrNoCompiler is what [Find]'s error wraps.
var ErrNoCompiler = errors.New("emu: no clang 17 or newer; install clang-19, or name one in GOMOE_CLANG")

// Compiler is a clang. It is safe for concurrent use.
type Compiler struct {
	Path    string
	Version string // its first line of --version
	cache   string // a directory

	mu       sync.Mutex
	building map[string]*sync.Mutex // by name of the result
}

const (
	oldest = 17 // the first with bfloat arithmetic and all builtins that the headers use
	newest = 24
)

// Find returns the clang that GOMOE_CLANG names or else the first of clang,
// clang-19, clang-20 and so on that is at least version 17. Results are kept
// in GOMOE_CACHE, or else in the user's cache directory, under gomoe.
func Find() (*Compiler, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		return nil, fmt.Errorf("%w (the emulated GPU runs on linux/amd64 and linux/arm64, this is %s/%s)", ErrNoCompiler, runtime.GOOS, runtime.GOARCH)
	}
	cache, err := cacheDir()
	if err != nil {
		return nil, fmt.Errorf("emu: where to keep compiled kernels: %w; set GOMOE_CACHE", err)
	}
	tried := []string{"clang", "clang-19"}
	for v := 20; v <= newest; v++ {
		tried = append(tried, "clang-"+strconv.Itoa(v))
	}
	tried = append(tried, "clang-18", "clang-17")
	if named := os.Getenv("GOMOE_CLANG"); named != "" {
		tried = []string{named}
	}
	var reasons []string
	for _, name := range tried {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		version, err := clangVersion(path)
		if err != nil {
			reasons = append(reasons, fmt.Sprintf("%s: %v", path, err))
			continue
		}
		return &Compiler{Path: path, Version: version, cache: cache, building: map[string]*sync.Mutex{}}, nil
	}
	if len(reasons) > 0 {
		return nil, fmt.Errorf("%w (%s)", ErrNoCompiler, strings.Join(reasons, "; "))
	}
	return nil, fmt.Errorf("%w (tried %s)", ErrNoCompiler, strings.Join(tried, ", "))
}

// clangVersion returns what the clang at path says of itself.
func clangVersion(path string) (string, error) {
	out, err := exec.CommandContext(context.Background(), path, "--version").Output()
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(out), "\n")
	_, rest, ok := strings.Cut(line, "clang version ")
	if !ok {
		return "", fmt.Errorf("%q is no clang", line)
	}
	major, _, _ := strings.Cut(rest, ".")
	if v, err := strconv.Atoi(major); err != nil || v < oldest {
		return "", fmt.Errorf("version %s, want at least %d", major, oldest)
	}
	return line, nil
}

// cacheDir returns where results are kept.
func cacheDir() (string, error) {
	if dir := os.Getenv("GOMOE_CACHE"); dir != "" {
		return filepath.Abs(dir + "/emu") // libraries name the runtime by its path
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return dir + "/gomoe/emu", nil
}

// Cache returns the folder that results are kept in.
func (c *Compiler) Cache() string { return c.cache }
