package snapshot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/parts"
	"github.com/gomoe/gomoe/runtime"
)

// overwrite changes all bytes that ranks hold, as a step does whose results take the memory.
func overwrite(t *testing.T, arrays map[string]*runtime.Array) {
	t.Helper()
	for _, a := range arrays {
		parts, err := a.Parts()
		require.NoError(t, err)
		for _, p := range parts {
			for i := range p.Bytes() {
				p.Bytes()[i] = 0xa5
			}
		}
	}
}

// A snapshot has the bits that arrays had when it was begun, on any mesh, whatever becomes of them while it is written. The
// files are those that Save writes.
func TestWriter(t *testing.T) {
	for _, m := range meshes() {
		job := openJob(t, m.mesh, m.place)
		w := Writer{Folder: Folder{Path: t.TempDir(), Keep: 5}}
		synced := 0
		for step := 1; step <= 3; step++ { // the second one waits for the first
			arrays := put(t, job)
			require.NoError(t, w.Begin(t.Context(), State{Step: step, Facts: map[string]string{"a": "b"}, Arrays: arrays, Sync: func() error { synced++; return nil }}))
			overwrite(t, arrays)
		}
		require.NoError(t, w.Wait(t.Context()))
		if done, err := w.Poll(t.Context()); !done || err != nil {
			t.Errorf("when all is written: %v, %v", done, err)
		}
		require.Equal(t, 3, synced)
		at := Folder{Path: t.TempDir()}
		require.NoError(t, at.Save(t.Context(), State{Step: 3, Facts: map[string]string{"a": "b"}, Arrays: put(t, job)}))
		steps, err := w.Folder.Steps()
		require.NoError(t, err)
		require.Equal(t, []int{1, 2, 3}, steps)
		for _, name := range []string{parts.ManifestName, parts.FileName(0, 1)} {
			got, err := os.ReadFile(filepath.Join(w.Folder.folder(3), name))
			require.NoError(t, err)
			want, err := os.ReadFile(filepath.Join(at.folder(3), name))
			require.NoError(t, err)
			require.Equal(t, want, got, "%s on the mesh %q", name, m.mesh)
		}
		s, err := w.Folder.Latest(t.Context())
		require.NoError(t, err)
		for name, want := range values() {
			got, err := s.Array(name)
			require.NoError(t, err)
			require.True(t, array.Equal(got, want), "%s on the mesh %q", name, m.mesh)
		}
		require.NoError(t, s.Close())
	}
}

// What is being written does not hold up who asks how far it is, and a snapshot that is abandoned is not there.
func TestWriterAbandons(t *testing.T) {
	job := openJob(t, "", nil)
	begun := func() (*Writer, chan struct{}) {
		w, held := &Writer{Folder: Folder{Path: t.TempDir()}}, make(chan struct{})
		require.NoError(t, w.Folder.Save(t.Context(), State{Step: 1, Arrays: put(t, job)}))
		require.NoError(t, w.Begin(t.Context(), State{Step: 2, Arrays: put(t, job), Sync: func() error { <-held; return nil }}))
		done, err := w.Poll(t.Context())
		require.NoError(t, err)
		require.False(t, done)
		return w, held
	}
	only := func(w *Writer) {
		t.Helper()
		steps, err := w.Folder.Steps()
		require.NoError(t, err)
		require.Equal(t, []int{1}, steps)
		require.NoDirExists(t, w.Folder.folder(2))
	}
	reason := errors.New("the reason")
	w, held := begun()
	time.AfterFunc(time.Millisecond, func() { close(held) })
	require.NoError(t, w.Abandon(reason))
	only(w)
	require.NoError(t, w.Abandon(reason), "nothing is written")

	w, held = begun()
	ctx, end := context.WithCancelCause(t.Context())
	time.AfterFunc(time.Millisecond, func() { end(reason); close(held) })
	err := w.Wait(ctx)
	if err == nil { // it was written before the end was seen
		steps, err := w.Folder.Steps()
		require.NoError(t, err)
		require.Equal(t, []int{1, 2}, steps)
	} else {
		require.ErrorIs(t, err, reason)
		only(w)
	}
	require.NoError(t, w.Wait(t.Context()))
}

// A snapshot that cannot be written is an error of Poll or Wait, and is not there; a later one can be.
func TestWriterFails(t *testing.T) {
	arrays := put(t, openJob(t, "dp=2", nil))
	w := Writer{Folder: Folder{Path: filepath.Join(t.TempDir(), "file")}}
	require.NoError(t, os.WriteFile(w.Folder.Path, nil, 0o644))
	require.NoError(t, w.Begin(t.Context(), State{Step: 7, Arrays: arrays}))
	var err error
	for done := false; !done && err == nil; time.Sleep(time.Millisecond) {
		done, err = w.Poll(t.Context())
	}
	require.ErrorContains(t, err, "snapshot: step 7: ")
	require.NoError(t, os.Remove(w.Folder.Path))
	reason := errors.New("the rows are not on the disk")
	require.NoError(t, w.Begin(t.Context(), State{Step: 8, Arrays: arrays, Sync: func() error { return reason }}))
	require.ErrorIs(t, w.Wait(t.Context()), reason)
	require.NoError(t, w.Begin(t.Context(), State{Step: 9, Arrays: arrays}))
	require.NoError(t, w.Wait(t.Context()))
	steps, err := w.Folder.Steps()
	require.NoError(t, err)
	require.Equal(t, []int{9}, steps)
	err = w.Begin(t.Context(), State{Step: 9, Arrays: arrays})
	require.NoError(t, err)
	require.ErrorContains(t, w.Wait(t.Context()), "is there already")
}
