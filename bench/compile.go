package main

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// sources are the peers' programs.
//
//go:embed peers
var sources embed.FS

// unpack writes the peers' programs to dir.
func unpack(dir string) error {
	sub, err := fs.Sub(sources, "peers")
	if err != nil {
		return err
	}
	return os.CopyFS(dir, sub)
}

// library is a library to link a C program with.
type library struct {
	env      string   // the variable naming the library's folder
	required bool     // whether only env can locate it
	pkg      string   // its pkg-config name
	include  []string // folders below env's
	define   []string
	link     []string
}

// missingLibrary is the error of a program that cannot be compiled for lack of a library.
type missingLibrary struct{ log string }

func (e *missingLibrary) Error() string { return "bench: " + e.log }

// flags returns the compiler's and the linker's arguments for the library.
func (l library) flags() (compile, link []string, err error) {
	if root := os.Getenv(l.env); l.env != "" && root != "" {
		compile = append(compile, "-I"+root, "-I"+filepath.Join(root, "include"))
		for _, dir := range l.include {
			compile = append(compile, "-I"+filepath.Join(root, dir))
		}
		for _, dir := range libraryDirs(root) {
			link = append(link, "-L"+dir, "-Wl,-rpath,"+dir)
		}
	} else if l.required {
		return nil, nil, &missingLibrary{l.env + " is not set"}
	} else if l.pkg != "" {
		if out, err := exec.Command("pkg-config", "--cflags", l.pkg).Output(); err == nil {
			compile = strings.Fields(string(out))
		}
		if out, err := exec.Command("pkg-config", "--libs-only-L", l.pkg).Output(); err == nil {
			link = strings.Fields(string(out))
		}
	}
	return append(compile, l.define...), append(link, l.link...), nil
}

// libraryDirs returns the folders below root holding libraries.
func libraryDirs(root string) []string {
	found := map[string]bool{}
	var dirs []string
	filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir // unreadable folders are skipped
		}
		if name := d.Name(); !d.IsDir() && strings.HasPrefix(name, "lib") && (strings.HasSuffix(name, ".a") || strings.HasSuffix(name, ".so")) {
			if dir := filepath.Dir(path); !found[dir] {
				found[dir] = true
				dirs = append(dirs, dir)
			}
		}
		return nil
	})
	return dirs
}

// compile builds a C program for this processor and returns its path.
func compile(dir, name, source string, lib library) (string, error) {
	before, after, err := lib.flags()
	if err != nil {
		return "", err
	}
	exe := filepath.Join(dir, strings.TrimSuffix(source, ".c")+"_"+strings.ToLower(name))
	args := append([]string{"-O3", "-march=native", "-std=gnu11", "-fopenmp", "-o", exe}, before...)
	args = append(args, filepath.Join(dir, source))
	return exe, cc(append(append(args, after...), "-lpthread", "-ldl", "-lm"))
}

// compileShared builds a shared library and returns its path.
func compileShared(dir, source string) (string, error) {
	lib := filepath.Join(dir, strings.TrimSuffix(source, ".c")+".so")
	return lib, cc([]string{"-O2", "-shared", "-fPIC", "-o", lib, filepath.Join(dir, source)})
}

func cc(args []string) error {
	exe := os.Getenv("CC")
	if exe == "" {
		exe = "cc"
	}
	out, err := exec.Command(exe, args...).CombinedOutput()
	if err == nil {
		return nil
	}
	log := strings.TrimSpace(string(out))
	for _, sign := range []string{"fatal error: ", "cannot find -l"} { // a header, a library
		if strings.Contains(log, sign) {
			return &missingLibrary{log}
		}
	}
	return fmt.Errorf("bench: %s: %w\n%s", exe, err, log)
}
