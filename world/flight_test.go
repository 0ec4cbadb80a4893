package world

import (
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/job/environ"
)

// Ranks agree on a name that differs from run to run, though the job's id does not, and
// write into a private folder of that name. A folder of the user's is kept.
func TestRunName(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("TMP", temp) // on Windows
	run := func(folder string) (runs [2]string, recordings [2]*recording) {
		sites := jaccltest.Sites(2)
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() {
				f := newRecording(Config{Log: io.Discard}, environ.Job{ID: "same", Rank: i, Size: 2, Flight: folder})
				if err := f.agree(t.Context(), sites[i]); err != nil {
					t.Error(err)
				}
				runs[i], recordings[i] = f.about.Run, f
			})
		}
		wg.Wait()
		return runs, recordings
	}
	a, of := run("")
	b, _ := run("")
	if a[0] == "" || a[0] != a[1] || a[0] == b[0] {
		t.Errorf("two runs are called %q and %q", a, b)
	}
	for _, f := range of {
		if f.folder != of[0].folder || !f.folder.Private || filepath.Dir(f.folder.Path) != filepath.Clean(temp) || !strings.Contains(f.folder.Path, a[0]) {
			t.Errorf("the folder is %+v", f.folder)
		}
	}
	_, of = run("mine")
	require.Equal(t, "mine", of[1].folder.Path)
	require.False(t, of[1].folder.Private)
	_, of = run("off")
	require.Empty(t, of[0].folder.Path)
}
