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

// ErrNoCompiler is wrapped by the error of [Find] when there is no usable clang.
var ErrNoCompiler = errors.New("emu: no clang 17 or newer; install one (Debian: apt-get install clang-19), or name it in GOMOE_CLANG")

// Compiler is a clang. It is safe for concurrent use.
type Compiler struct {
	Path    string
	Version string // the first line printed by --version
	cache   string // a directory

	mu       sync.Mutex
	building map[string]*sync.Mutex // by the name of the result
}

const (
	oldest = 17 // the first version with bfloat arithmetic and all builtins used by the headers
	newest = 24
)

// Find returns the clang named by GOMOE_CLANG, or else the first of clang, clang-19, clang-20 and
// so on whose version is at least 17. The compiler caches its results in the folder emu of
// GOMOE_CACHE, or else of gomoe in the user's cache directory.
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

// clangVersion returns the first line that the clang at path prints for --version.
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

// cacheDir returns the folder for results.
func cacheDir() (string, error) {
	if dir := os.Getenv("GOMOE_CACHE"); dir != "" {
		return filepath.Abs(dir + "/emu") // absolute, because libraries refer to the runtime by its path
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return dir + "/gomoe/emu", nil
}

// Cache returns the folder of cached results.
func (c *Compiler) Cache() string { return c.cache }
