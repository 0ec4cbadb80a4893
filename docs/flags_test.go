//go:build unix

package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// flags knows the flags of the project's programs, by what they print for -h.
type flags struct {
	root, bin string
	mu        sync.Mutex
	help      map[string]string // by command line
	makefile  string
}

func newFlags() *flags {
	root, bin := built.root, built.bin
	makefile, _ := os.ReadFile(filepath.Join(root, "Makefile"))
	return &flags{root: root, bin: bin, help: map[string]string{}, makefile: string(makefile)}
}

// foreign lists the programs of others that commands of a document may begin with.
func foreign() []string {
	return []string{"mlx.distributed_config", "mlx.launch", "mpirun", "srun", "torchrun", "salloc", "sbatch", "kubectl", "openssl", "mkdir", "ssh", "scp", "rsync", "git", "kill", "cd", "apt-get", "sudo"}
}

// check reports what a command line has that is not there: a program, a flag, a package,
// a target of make.
func (f *flags) check(command string) error {
	words := strings.Fields(command)
	for len(words) > 0 && regexp.MustCompile(`^[A-Z_]+=`).MatchString(words[0]) {
		words = words[1:]
	}
	if len(words) == 0 {
		return nil
	}
	for _, w := range words {
		if dir, ok := strings.CutPrefix(w, "./"); ok && !strings.Contains(w, "...") && strings.Contains(dir, "/") {
			if _, err := os.Stat(filepath.Join(f.root, dir)); err != nil {
				return fmt.Errorf("%s: there is no folder %s", command, w)
			}
		}
	}
	switch words[0] {
	case "make":
		for _, target := range words[1:] {
			if !strings.Contains(target, "=") && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(target)+`:`).MatchString(f.makefile) {
				return fmt.Errorf("%s: the Makefile has no target %s", command, target)
			}
		}
		return nil
	case "go":
		if len(words) > 1 && words[1] != "run" {
			return nil
		}
	}
	found := false
	for i := 0; i < len(words); i++ {
		name := filepath.Base(words[i])
		if _, err := os.Stat(filepath.Join(f.bin, name)); err != nil {
			continue
		}
		found = true
		n, err := f.program(name, words[i+1:])
		if err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
		i += n
	}
	if !found && !slices.Contains(foreign(), words[0]) {
		return fmt.Errorf("%s: %s is no program of the project, and not in the list of others'", command, words[0])
	}
	return nil
}

// program checks the subcommands and flags behind a program's name, up to --, and returns
// how many words these are.
func (f *flags) program(name string, args []string) (int, error) {
	line, n := []string{name}, 0
	for name == "gomoe" && n < len(args) && regexp.MustCompile(`^[a-z]+$`).MatchString(args[n]) && n < 2 {
		help := f.usage(line...)
		if !regexp.MustCompile(`(?m)^  ` + args[n] + ` `).MatchString(help) {
			if n == 0 {
				return 0, fmt.Errorf("%s has no subcommand %s", name, args[n])
			}
			break // an argument
		}
		line = append(line, args[n])
		n++
	}
	for ; n < len(args) && args[n] != "--"; n++ {
		flag, ok := strings.CutPrefix(args[n], "-")
		if !ok || flag == "" || flag == "h" || flag == "help" {
			continue
		}
		flag, _, _ = strings.Cut(flag, "=")
		if !regexp.MustCompile(`(?m)^\s+-` + regexp.QuoteMeta(flag) + `[ =\n\t]`).MatchString(f.usage(line...)) {
			return 0, fmt.Errorf("%s has no flag -%s", strings.Join(line, " "), flag)
		}
	}
	return n, nil
}

// usage is what a command prints for -h.
func (f *flags) usage(line ...string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := strings.Join(line, " ")
	if _, ok := f.help[key]; !ok {
		out, _ := exec.Command(filepath.Join(f.bin, line[0]), append(line[1:], "-h")...).CombinedOutput()
		f.help[key] = string(out)
	}
	return f.help[key]
}

// TestFlags seeds commands that are wrong.
func TestFlags(t *testing.T) {
	f := newFlags()
	for command, want := range map[string]string{
		"gomoe plan x.graph -mesh ep=2":                          "",
		"go run ./examples/moe_lm -steps 5":                      "",
		"mpirun -n 4 bin/moe_lm -steps 5":                        "",
		"gomoe launch -n 4 -- moe_lm -check":                     "",
		"make test":                                              "",
		"gomoe plan x.graph -mash ep=2":                          "gomoe plan has no flag -mash",
		"gomoe plain x.graph":                                    "gomoe has no subcommand plain",
		"gomoe launch -n 4 -- moe_lm -chek":                      "moe_lm has no flag -chek",
		"GOMOE_KERNELS=avx2 moe_lm -chek":                        "moe_lm has no flag -chek",
		"mpirun -n 4 bin/moe_lm -step 5":                         "moe_lm has no flag -step",
		"gomoe trace merge -into x":                              "gomoe trace merge has no flag -into",
		"go run ./examples/gone":                                 "there is no folder ./examples/gone",
		"make tset":                                              "the Makefile has no target tset",
		"python3 train.py":                                       "python3 is no program of the project",
		"gomoe bench collectives -n 2 -transport shm -hidden 12": "",
	} {
		err := f.check(command)
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}
