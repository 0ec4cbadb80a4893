package emu

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/gomoe/gomoe/metal/internal/msl"
)

// BuildOptions says which of its forms a source is built in.
type BuildOptions struct {
	// Leader has lane 0 compute all of a simdgroup's matrix products: the same
	// bits as without, ten times as fast, and other mistakes that show.
	Leader bool
	// Lint checks address spaces first.
	Lint bool
	// Fences makes it an error that a thread reads what another thread of its threadgroup
	// has written, unless a barrier with the flag of such memory lies between. Kernels run
	// many times slower.
	Fences bool
	// Contraction says which products and sums become one operation with one rounding: none
	// for "", those of an expression for "on", and all for "fast".
	Contraction string
	// Old is Metal Shading Language 3.1 instead of 3.2.
	Old bool
	// Fast lets the compiler reorder arithmetic and ignore NaNs and infinities, as fast
	// math of Metal's compiler does.
	Fast bool
}

// BuildError is what a compiler had to say of a source.
type BuildError struct {
	Text string // lines of file:line:column: error: text
}

// Error returns the compiler's text.
func (e *BuildError) Error() string { return "emu: " + strings.TrimSpace(e.Text) }

// Build makes a shared object of a Metal source and returns its path, which is
// in the cache: a source that was built before costs no compiler. Processes
// may build the same at the same time. The lines of errors are the source's,
// or those of the #line directives in it. The error is a [*BuildError] where
// the source is at fault.
func (c *Compiler) Build(ctx context.Context, source string, o BuildOptions) (string, error) {
	var flags []string
	if o.Leader {
		flags = append(flags, "-DMSL_LEADER")
	}
	if o.Fences {
		flags = append(flags, "-DMSL_FENCES", "-O1", "-fno-vectorize", "-fno-slp-vectorize",
			"-Xclang", "-fsanitize-coverage-type=1", "-Xclang", "-fsanitize-coverage-trace-loads", "-Xclang", "-fsanitize-coverage-trace-stores")
	}
	if o.Contraction != "" {
		flags = append(flags, "-ffp-contract="+o.Contraction)
	}
	if o.Fast {
		flags = append(flags, fastFlags()...)
	}
	lint, version := "no lint", "320"
	if o.Old {
		version = "310"
	}
	if o.Lint {
		lint = "lint, with instances"
	}
	runtime, err := c.runtime(ctx)
	if err != nil {
		return "", err
	}
	return c.cached(ctx, slices.Concat([]string{"metal, with pragmas", lint, version, source, runtime}, flags), func(dir, out string) error {
		unit, err := c.read(ctx, dir, source, version)
		if err != nil {
			return err
		}
		if o.Lint {
			text := "#include \"msl.h\"\n" + unit.Source + "\n# 1 \"instances\"\n" + unit.Instances
			if err := c.compile(ctx, dir, text, slices.Concat(languageFlags(), []string{"-DMSL_LINT", "-fsyntax-only"})); err != nil {
				return err
			}
		}
		text := "#include \"msl.h\"\n" + unit.Source + "\n# 1 \"tables\"\n" + unit.Tables
		return c.compile(ctx, dir, text, slices.Concat(languageFlags(), linkFlags(), flags, []string{"-o", out}), runtime, "-lm")
	})
}

// runtime returns the shared object that all libraries of kernels need, by its
// path. It stays in a process for good: a signal handler is in it.
func (c *Compiler) runtime(ctx context.Context) (string, error) {
	return c.cached(ctx, []string{"runtime"}, func(dir, out string) error {
		return c.compile(ctx, dir, "#include \"runtime.h\"\n", slices.Concat(languageFlags(), linkFlags(), []string{"-Wl,-z,nodelete", "-o", out}), "-lpthread")
	})
}

// BuildNative makes a shared object of C++ that may include the shim's
// headers, abi.h above all, with flags of its own. It is cached like Build's.
func (c *Compiler) BuildNative(ctx context.Context, source string, flags ...string) (string, error) {
	return c.cached(ctx, slices.Concat([]string{"native", source}, flags), func(dir, out string) error {
		libraries := slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return !strings.HasPrefix(f, "-l") })
		others := slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return strings.HasPrefix(f, "-l") })
		return c.compile(ctx, dir, source, slices.Concat([]string{"-std=c++17", "-Wall"}, linkFlags(), others, []string{"-o", out}), libraries...)
	})
}

// languageFlags are how Metal is read: Metal 3 is C++14 with 32-bit floats;
// half and bfloat are rounded after every operation, and nothing is fused.
func languageFlags() []string {
	flags := []string{
		"-std=c++14", "-ffp-contract=off", "-Xclang", "-ffloat16-excess-precision=none", "-Xclang", "-fbfloat16-excess-precision=none",
		"-Wall", "-Wno-unknown-attributes", "-Wno-ignored-attributes", "-Wno-duplicate-decl-specifier", "-Wno-unused-function", "-Wno-unused-variable",
		"-Wno-unused-but-set-variable", "-Wno-unknown-pragmas", "-Wno-c++17-extensions", "-Wno-unused-const-variable", "-Wno-null-dereference",
	}
	if runtime.GOARCH == "amd64" {
		return append(flags, "-march=x86-64-v3")
	}
	return append(flags, "-fsanitize=integer-divide-by-zero", "-fsanitize-trap=integer-divide-by-zero") // the processor has zero for it
}

// fastFlags are the parts of -ffast-math that concern the compiler. -ffast-math itself may
// also link code that makes the whole process flush denormal numbers to zero.
func fastFlags() []string {
	return []string{"-ffp-contract=fast", "-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-fno-trapping-math", "-ffinite-math-only"}
}

// linkFlags make a shared object of what needs no C++ library.
func linkFlags() []string {
	return []string{"-O2", "-g1", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fPIC", "-shared", "-fvisibility=hidden"}
}

// read runs the preprocessor, with Metal's headers empty, and the pre-pass. The pragma that
// Metal has of its own for contraction, from 3.2 on, is clang's here.
func (c *Compiler) read(ctx context.Context, dir, source, version string) (*msl.Unit, error) {
	cmd := exec.CommandContext(ctx, c.Path, "-E", "-x", "c++", "-std=c++14", "-nostdinc", "-nostdinc++", "-undef",
		"-D__METAL_VERSION__="+version, "-D__METAL__", "-D__METAL_MACOS__", "-I", filepath.Join(dir, "shim", "metal"), "-")
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader("#line 1 \"source.metal\"\n" + strings.ReplaceAll(source, "#pragma METAL fp ", "#pragma clang fp "))
	var out, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return nil, failed(ctx, err, complaints.String())
	}
	unit, err := msl.Rewrite(out.String())
	if err != nil {
		return nil, &BuildError{err.Error()}
	}
	return unit, nil
}

// compile runs the compiler on C++ text, with libraries behind it.
func (c *Compiler) compile(ctx context.Context, dir, text string, flags []string, libraries ...string) error {
	args := slices.Concat([]string{"-I", filepath.Join(dir, "shim")}, flags, []string{"-x", "c++", "-", "-x", "none"}, libraries)
	cmd := exec.CommandContext(ctx, c.Path, args...)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(text)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	if err := cmd.Run(); err != nil {
		return failed(ctx, err, complaints.String())
	}
	return nil
}

// failed returns what a compiler's end means.
func failed(ctx context.Context, err error, complaints string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("emu: compiling: %w", context.Cause(ctx))
	}
	if complaints == "" {
		return fmt.Errorf("emu: running the compiler: %w", err)
	}
	return &BuildError{complaints}
}

// cached returns the shared object that inputs name, made by build if there is
// none yet. build gets a directory of its own, with the shim's headers in
// shim/, and where to write; nobody sees what it writes before it is whole.
func (c *Compiler) cached(ctx context.Context, inputs []string, build func(dir, out string) error) (string, error) {
	h := sha256.New()
	for _, s := range append([]string{c.Path, c.Version, runtime.GOARCH, shimHash(), strings.Join(languageFlags(), " "), strings.Join(linkFlags(), " ")}, inputs...) {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	name := hex.EncodeToString(h.Sum(nil)[:16]) + ".so"
	path := filepath.Join(c.cache, name)
	lock := c.lock(name)
	lock.Lock()
	defer lock.Unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("emu: compiling: %w", context.Cause(ctx))
	}
	if err := os.MkdirAll(c.cache, 0o755); err != nil {
		return "", fmt.Errorf("emu: keeping compiled kernels: %w; set GOMOE_CACHE", err)
	}
	dir, err := os.MkdirTemp(c.cache, "build-")
	if err != nil {
		return "", fmt.Errorf("emu: keeping compiled kernels: %w; set GOMOE_CACHE", err)
	}
	defer os.RemoveAll(dir)
	if err := writeShim(filepath.Join(dir, "shim")); err != nil {
		return "", fmt.Errorf("emu: writing headers: %w", err)
	}
	out := filepath.Join(dir, name)
	if err := build(dir, out); err != nil {
		return "", err
	}
	if err := os.Rename(out, path); err != nil {
		return "", fmt.Errorf("emu: keeping compiled kernels: %w", err)
	}
	return path, nil
}

// lock returns the lock of a result, so that this process builds it once.
func (c *Compiler) lock(name string) *sync.Mutex {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.building[name] == nil {
		c.building[name] = new(sync.Mutex)
	}
	return c.building[name]
}
