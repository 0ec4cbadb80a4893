package metal

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/internal/clangtest"
	"github.com/gomoe/gomoe/metal/internal/standin"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/metal/mtl"
)

// Metal accepts every kernel in both versions of the language, and in 4.0, where the system has it, those
// that use tensor operations. On a Mac this asks Apple's
// compiler, of any GPU, also of one that cannot run them. Elsewhere it asks the stand-in, in
// the older version only for texts that depend on it.
func TestTexts(t *testing.T) {
	rt, err := mtl.System()
	if errors.Is(err, mtl.ErrNoMetal) && runtime.GOOS != "darwin" {
		c := clangtest.Compiler(t)
		s, err := standin.Open(t.Context(), c, standin.Options{Leader: true, System: 26})
		require.NoError(t, err)
		defer func() { require.Empty(t, s.Close().Violations()) }()
		rt, err = mtl.Load(s.Handle(), s.Handle())
		require.NoError(t, err)
	} else {
		require.NoError(t, err)
	}
	d, err := rt.Device()
	require.NoError(t, err)
	defer d.Close()
	t.Logf("%+v", d.Facts())
	texts, err := filepath.Glob("kernels/*.metal")
	require.NoError(t, err)
	compiled, tensors := 0, 0
	for _, path := range texts {
		own, err := os.ReadFile(path)
		require.NoError(t, err)
		if !strings.Contains(string(own), "\nkernel ") {
			continue // what kernels include
		}
		text, err := kernels.Text(filepath.Base(path))
		require.NoError(t, err)
		for _, l := range []mtl.Language{mtl.MSL31, mtl.MSL32} {
			if runtime.GOOS != "darwin" && l == mtl.MSL31 && !strings.Contains(text, "__METAL_VERSION__") {
				continue
			}
			library, err := d.Library(text, mtl.Options{Language: l})
			if err != nil {
				t.Errorf("%s as %s: %v", path, l, err)
				continue
			}
			require.NotEmpty(t, library.Functions(), "%s as %s", path, l)
			compiled++
		}
		text, has, err := kernels.TensorText(filepath.Base(path))
		require.NoError(t, err)
		if !has || !d.HasTensors() {
			continue
		}
		library, err := d.Library(text, mtl.Options{Language: mtl.MSL40})
		if err != nil {
			t.Errorf("%s as %s: %v", path, mtl.MSL40, err)
			continue
		}
		if slices.ContainsFunc(library.Functions(), func(f string) bool { return strings.HasSuffix(f, "_tensor_bf16_nn") }) {
			tensors++
		}
	}
	require.Greater(t, compiled, 30)
	if d.HasTensors() {
		require.Equal(t, 4, tensors)
	}
}

// The workflow for a Mac is YAML, and runs the test that compiles every kernel.
func TestWorkflow(t *testing.T) {
	text, err := os.ReadFile("../.github/workflows/metal.yml")
	require.NoError(t, err)
	require.YAMLEq(t, string(text), string(text))
	require.Contains(t, string(text), "-run '^TestTexts$' ./metal\n")
	require.Contains(t, string(text), "gomoe bench kernels -device metal\n")
}
