package pages

import (
	"testing"

	"github.com/gomoe/gomoe/internal/testing/advised"
)

func TestLarge(t *testing.T) {
	mem := make([]byte, 9<<20)
	mem[5<<20] = 7
	Large(mem[:smallest-1])
	if advised.Huge(mem[4<<20:]) {
		t.Error("less than 4 MiB is in large pages")
	}
	Large(mem)
	if got, want := advised.Huge(mem[4<<20:]), advised.System(); got != want {
		t.Errorf("9 MiB: in large pages %v, want %v", got, want)
	}
	if mem[5<<20] != 7 {
		t.Error("the contents have changed")
	}
	Large(nil)
	Large(mem[1 : smallest+1]) // begins between two pages
}
