package whole_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/whole"
)

// An output is apart from an input unless both are one file, by any name.
func TestApart(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"in", "other"} {
		require.NoError(t, os.WriteFile(at(name), []byte(name), 0o666))
	}
	require.NoError(t, os.Mkdir(at("folder"), 0o777))
	require.NoError(t, os.Symlink(dir, at("back")))
	require.NoError(t, os.Symlink("in", at("link")))
	require.NoError(t, os.Symlink("new", at("dangling")))
	require.NoError(t, os.Link(at("in"), at("hard")))
	t.Chdir(dir)
	for _, same := range [][2]string{
		{"in", "in"}, {"in", at("in")}, {"./in", "in"}, {"folder/../in", "in"}, {"back/in", "in"}, {"link", "in"}, {"in", "link"}, {"hard", "in"},
		{"new", "new"}, {"new", at("new")}, {"./new", "back/new"}, {"dangling", "new"}, {"new", "dangling"},
	} {
		require.EqualError(t, whole.Apart(same[0], "other", same[1]), same[0]+" is also "+same[1]+", which would be lost; want another name for the output")
	}
	for _, apart := range [][2]string{{"in", "other"}, {"in", "new"}, {"new", "in"}, {"in", ""}, {"new", ""}, {"folder", "folder"}, {os.DevNull, os.DevNull}, {"folder/in", "in"}} {
		require.NoError(t, whole.Apart(apart[0], apart[1]), apart)
	}
	require.NoError(t, whole.ApartIn("folder", []string{"in", "other"}, "in", "other"))
	require.ErrorContains(t, whole.ApartIn("back", []string{"out", "other"}, "in", "other"), "back/other is also other")
}
