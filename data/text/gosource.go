package text

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// goSource returns the src directory of the Go installation: the one of the go command on PATH, or of $GOROOT if
// there is no such command. runtime.GOROOT does not help here: it is deprecated, and empty in a binary built with
// -trimpath.
func goSource(ctx context.Context, setting string) (string, error) {
	root, err := goRoot(ctx)
	if err != nil {
		return "", fmt.Errorf("text: find the Go standard library's source: %w; "+
			"put go on PATH, set GOROOT, or name files or directories with %s", err, setting)
	}
	src := filepath.Join(root, "src")
	if info, err := os.Stat(src); err != nil || !info.IsDir() {
		return "", fmt.Errorf("text: find the Go standard library's source: %s is not a directory; "+
			"install Go's sources, or name files or directories with %s", src, setting)
	}
	return src, nil
}

func goRoot(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOROOT")
	// Otherwise a go.mod in the working directory may make the command download another toolchain first.
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN=local")
	out, err := cmd.Output()
	if cause := context.Cause(ctx); cause != nil {
		return "", cause
	}
	if errors.Is(err, exec.ErrNotFound) {
		if root := os.Getenv("GOROOT"); root != "" {
			return root, nil
		}
		return "", errors.New("no go command on PATH and GOROOT is not set")
	}
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			return "", fmt.Errorf("go env GOROOT: %w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	root := strings.TrimSpace(string(out))
	if root == "" {
		return "", errors.New("go env GOROOT printed nothing")
	}
	return root, nil
}
