package kernel

import (
	"testing"
	"testing/fstest"
)

func TestSecondLevel(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for size, want := range map[string]int{"2048K\n": 2 << 20, "1M\n": 1 << 20, "512": 512, "K": 0, "-1K": 0, "much": 0} {
		caches := fstest.MapFS{
			"index0/level": file("1\n"), "index0/size": file("48K\n"),
			"index2/level": file("2\n"), "index2/size": file(size),
			"index3/level": file("3\n"), "index3/size": file("32M\n"),
		}
		if got := secondLevel(caches); got != want {
			t.Errorf("a second-level cache of %q has %d bytes, want %d", size, got, want)
		}
	}
	if got := secondLevel(fstest.MapFS{"index0/level": file("1\n")}); got != 0 {
		t.Errorf("%d bytes where there is none, want 0", got)
	}
}
