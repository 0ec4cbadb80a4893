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

// BuildOptions are the settings for building a source.
type BuildOptions struct {
	// Leader makes lane 0 compute all of a simdgroup's matrix products. The results have the same
	// bits, the build is ten times as fast, and other mistakes of a kernel show.
	Leader bool
	// Lint checks address spaces before the build.
	Lint bool
	// Fences makes it an error for a thread to read a value written by another thread of its
	// threadgroup, unless separated from the write by a barrier with the flag of that kind of memory.
	// Kernels run many times slower.
	Fences bool
	// Count makes runs add to Launch.Counts. Lane 0 computes matrix products, as with Leader.
	Count bool
	// Contraction selects the products and sums fused into one operation with one rounding: none for
	// "", within one expression for "on", and all for "fast".
	Contraction string
	// Old selects Metal Shading Language 3.1 instead of 3.2.
	Old bool
	// Tensors selects Metal Shading Language 4.0, which is based on a newer C++ and has tensors.
	Tensors bool
	// Fast lets the compiler reorder arithmetic and ignore NaNs and infinities, like Metal's fast
	// math.
	Fast bool
}

// BuildError holds the compiler's messages about a wrong source.
type BuildError struct {
	Text string // lines of file:line:column: error: text
}

// Error returns the compiler's text.
func (e *BuildError) Error() string { return "emu: " + strings.TrimSpace(e.Text) }

// Build compiles a Metal source to a shared object and returns the path of the object in the cache. A
// source that was built before is not compiled again. Several processes may build the same source at
// the same time. Errors name lines of the source, or the lines given by its #line directives. If the
// source is at fault, the error is a [*BuildError].
func (c *Compiler) Build(ctx context.Context, source string, o BuildOptions) (string, error) {
	var flags []string
	if o.Leader {
		flags = append(flags, "-DMSL_LEADER")
	}
	if o.Fences {
		flags = append(flags, "-DMSL_FENCES", "-O1", "-fno-vectorize", "-fno-slp-vectorize",
			"-Xclang", "-fsanitize-coverage-type=1", "-Xclang", "-fsanitize-coverage-trace-loads", "-Xclang", "-fsanitize-coverage-trace-stores")
	}
	if o.Count {
		flags = append(flags, countFlags()...)
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
	if o.Tensors {
		version = "400"
		flags = append(flags, tensorFlags()...)
	}
	if o.Lint {
		lint = "lint, with instances"
	}
	runtime, err := c.runtime(ctx)
	if err != nil {
		return "", err
	}
	return c.cached(ctx, slices.Concat([]string{"metal, with pragmas, without those that unroll", lint, version, source, runtime}, flags), func(dir, out string) error {
		unit, err := c.read(ctx, dir, source, version)
		if err != nil {
			return err
		}
		if o.Lint {
			text := "#include \"msl.h\"\n" + unit.Source + "\n# 1 \"instances\"\n" + unit.Instances
			if err := c.compile(ctx, dir, text, slices.Concat(languageFlags(), flags, []string{"-DMSL_LINT", "-fsyntax-only"})); err != nil {
				return err
			}
		}
		text := "#include \"msl.h\"\n" + unit.Source + "\n# 1 \"tables\"\n" + unit.Tables
		if o.Count {
			return c.compileCounted(ctx, dir, text, flags, out, runtime)
		}
		return c.compile(ctx, dir, text, slices.Concat(languageFlags(), linkFlags(), flags, []string{"-o", out}), runtime, "-lm")
	})
}

// runtime returns the path of the shared object needed by all libraries of kernels. It is never
// unloaded, because it contains a signal handler.
func (c *Compiler) runtime(ctx context.Context) (string, error) {
	return c.cached(ctx, []string{"runtime"}, func(dir, out string) error {
		return c.compile(ctx, dir, "#include \"runtime.h\"\n", slices.Concat(languageFlags(), linkFlags(), []string{"-Wl,-z,nodelete", "-o", out}), "-lpthread")
	})
}

// BuildNative compiles C++ to a shared object, with the given flags. The source may include the shim's
// headers, such as abi.h. The result is cached as in Build.
func (c *Compiler) BuildNative(ctx context.Context, source string, flags ...string) (string, error) {
	return c.cached(ctx, slices.Concat([]string{"native", source}, flags), func(dir, out string) error {
		libraries := slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return !strings.HasPrefix(f, "-l") })
		others := slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return strings.HasPrefix(f, "-l") })
		return c.compile(ctx, dir, source, slices.Concat([]string{"-std=c++17", "-Wall"}, linkFlags(), others, []string{"-o", out}), libraries...)
	})
}

// languageFlags returns the flags making C++ behave like Metal 3, which is based on C++14: half and
// bfloat are rounded after every operation, and no operations are fused.
func languageFlags() []string {
	flags := []string{
		"-std=c++14", "-ffp-contract=off", "-Xclang", "-ffloat16-excess-precision=none", "-Xclang", "-fbfloat16-excess-precision=none",
		"-Wall", "-Wno-unknown-attributes", "-Wno-ignored-attributes", "-Wno-duplicate-decl-specifier", "-Wno-unused-function", "-Wno-unused-variable",
		"-Wno-unused-but-set-variable", "-Wno-unknown-pragmas", "-Wno-c++17-extensions", "-Wno-unused-const-variable", "-Wno-null-dereference",
	}
	if runtime.GOARCH == "amd64" {
		return append(flags, "-march=x86-64-v3")
	}
	return append(flags, "-fsanitize=integer-divide-by-zero", "-fsanitize-trap=integer-divide-by-zero") // arm64 itself returns 0 and does not trap
}

// tensorFlags returns the flags for Metal 4: it passes descriptors of tensor operations as template
// parameters, which needs C++20.
func tensorFlags() []string { return []string{"-DMSL_TENSORS", "-std=c++20"} }

// fastFlags returns the parts of -ffast-math concerning the compiler. -ffast-math itself may also link
// code making the whole process flush denormal numbers to zero.
func fastFlags() []string {
	return []string{"-ffp-contract=fast", "-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-fno-trapping-math", "-ffinite-math-only"}
}

// linkFlags returns the flags for a shared object that needs no C++ library.
func linkFlags() []string {
	return []string{"-O2", "-g1", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fPIC", "-shared", "-fvisibility=hidden"}
}

// read runs the preprocessor, substituting empty files for Metal's headers, and then msl.Rewrite.
// Metal's own pragma for contraction, added in 3.2, is replaced by clang's.
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
	// A GPU must unroll these loops, because its registers cannot be indexed. On this processor,
	// unrolling would only make compiling much slower.
	unit, err := msl.Rewrite(strings.ReplaceAll(out.String(), "#pragma clang loop unroll(full)", ""))
	if err != nil {
		return nil, &BuildError{err.Error()}
	}
	return unit, nil
}

// compile runs the compiler on C++ text. The libraries follow the text on the command line.
func (c *Compiler) compile(ctx context.Context, dir, text string, flags []string, libraries ...string) error {
	return c.translate(ctx, dir, "c++", text, flags, libraries...)
}

// translate runs the compiler on text in a language.
func (c *Compiler) translate(ctx context.Context, dir, language, text string, flags []string, libraries ...string) error {
	args := slices.Concat([]string{"-I", filepath.Join(dir, "shim")}, flags, []string{"-x", language, "-", "-x", "none"}, libraries)
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

// failed returns the error for a compiler that exited with err after writing complaints.
func failed(ctx context.Context, err error, complaints string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("emu: compiling: %w", context.Cause(ctx))
	}
	if complaints == "" {
		return fmt.Errorf("emu: running the compiler: %w", err)
	}
	return &BuildError{complaints}
}

// cached returns the path of the shared object identified by inputs. If the cache does not have it,
// build makes it, given a directory of its own, with the shim's headers in shim/, and an output path.
// The result gets its name in the cache only after it is complete.
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

// lock returns the lock of a result by name, so that this process builds each result once.
func (c *Compiler) lock(name string) *sync.Mutex {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.building[name] == nil {
		c.building[name] = new(sync.Mutex)
	}
	return c.building[name]
}
