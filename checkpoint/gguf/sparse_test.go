package gguf

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file that is long and has no bytes on the disk takes no memory for what it claims.
func TestSparse(t *testing.T) {
	for _, c := range []struct {
		name string
		file raw
		want string
	}{
		{"strings", head(0, 1).text("k").u32(kindArray).u32(kindString).u64(1 << 29), `key "k": keys and names take more than 256 MiB with 536870912 elements of 16 bytes`},
		{"many arrays of strings", head(0, 3).text("a").u32(kindArray).u32(kindString).u64(0).text("b").u32(kindArray).u32(kindString).u64(1 << 25), `key "b": keys and names take more than`},
		{"a string", head(0, 1).text("k").u32(kindString).u64(4e9), `key "k": keys and names take more than`},
		{"bytes", head(0, 1).text("k").u32(kindArray).u32(kindU8).u64(4e9), `key "k": keys and names take more than`},
		{"bools", head(0, 1).text("k").u32(kindArray).u32(kindBool).u64(4e9), `key "k": keys and names take more than`},
		{"numbers", head(0, 1).text("k").u32(kindArray).u32(kindF64).u64(5e8), `key "k": keys and names take more than`},
		{"a key", head(0, 1).u64(4e9), `key 1 of 1: keys and names take more than`},
		{"a tensor", head(1, 0).u64(4e9), `tensor 1 of 1: keys and names take more than`},
		{"a long key", head(0, 2).text(strings.Repeat("k", 1<<20)).u32(kindU32).u32(1).text(strings.Repeat("k", 1<<20)).u32(kindU8), `key "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"… is there twice`},
		{"a tensor's long name", head(1, 0).text("\x1b" + strings.Repeat("k", 1<<20)).u32(9), `tensor "\x1bkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"…: 9 dimensions`},
	} {
		path := filepath.Join(t.TempDir(), "a.gguf")
		require.NoError(t, os.WriteFile(path, []byte(c.file), 0o600))
		require.NoError(t, os.Truncate(path, 5e9))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Open(path)
		runtime.ReadMemStats(&after)
		require.ErrorContains(t, err, c.want, c.name)
		require.Less(t, len(err.Error()), 400, c.name)
		if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
			t.Errorf("%s: %d bytes of memory were taken", c.name, took)
		}
	}
}
