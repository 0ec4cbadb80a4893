package launch

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// goRun is a "go run" command: the package to build, and the arguments of the program.
type goRun struct {
	flags, pkg, args []string
	name             string // name of the program
}

// parseGoRun reads a command line. ok is false if the command is not "go run".
func parseGoRun(command []string) (g goRun, ok bool, err error) {
	if len(command) < 2 || strings.TrimSuffix(filepath.Base(command[0]), ".exe") != "go" || command[1] != "run" {
		return g, false, nil
	}
	rest := command[2:]
	for len(rest) > 0 && strings.HasPrefix(rest[0], "-") {
		name, _, given := strings.Cut(strings.TrimLeft(rest[0], "-"), "=")
		n := 1
		if !given && !goSwitch(name) {
			n = 2
		}
		if name == "exec" || name == "n" || n > len(rest) {
			return g, true, fmt.Errorf("launch: go run %s: want build flags with their values and a package", strings.Join(rest, " "))
		}
		g.flags, rest = append(g.flags, rest[:n]...), rest[n:]
	}
	for len(rest) > 0 && strings.HasSuffix(rest[0], ".go") {
		g.pkg, rest = append(g.pkg, rest[0]), rest[1:]
	}
	if g.pkg == nil && len(rest) > 0 {
		g.pkg, rest = rest[:1], rest[1:]
	}
	switch {
	case g.pkg == nil:
		return g, true, fmt.Errorf("launch: %s: no package", strings.Join(command, " "))
	case strings.Contains(g.pkg[0], "@"):
		return g, true, fmt.Errorf("launch: go run %s: a version is not built here; go install it, and launch the program", g.pkg[0])
	}
	g.args = rest
	g.name = strings.TrimSuffix(filepath.Base(g.pkg[0]), ".go")
	return g, true, nil
}

// goSwitch reports whether a flag of go build takes no value.
func goSwitch(name string) bool {
	switch name {
	case "a", "race", "msan", "asan", "cover", "v", "work", "x", "linkshared", "modcacherw", "trimpath", "buildvcs", "json":
		return true
	}
	return false
}

// build builds the program into a folder and returns the command starting it.
func (g goRun) build(ctx context.Context, goTool, dir, into string, out *output) ([]string, error) {
	name := g.name
	if name == "." || name == ".." {
		abs, err := filepath.Abs(filepath.Join(dir, g.pkg[0]))
		if err != nil {
			return nil, fmt.Errorf("launch: %w", err)
		}
		name = filepath.Base(abs)
	}
	if os.PathSeparator == '\\' {
		name += ".exe"
	}
	path := filepath.Join(into, name)
	args := append(append([]string{"build", "-o", path}, g.flags...), g.pkg...)
	out.say("gomoe launch: go %s: built once, for all ranks", strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, goTool, args...)
	text := &lines{pass: out.add}
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, text, text
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it removes its files
	cmd.WaitDelay = drain
	err := cmd.Run()
	text.end()
	if err != nil {
		return nil, fmt.Errorf("launch: go %s: %w", strings.Join(args, " "), err)
	}
	return append([]string{path}, g.args...), nil
}
