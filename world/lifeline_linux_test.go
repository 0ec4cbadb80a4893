package world_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/world"
)

// A launcher that makes its pipe blocking, which it does when it starts a program with
// it, keeps no rank from closing.
func TestLauncherBlocks(t *testing.T) {
	r, life, err := os.Pipe()
	require.NoError(t, err)
	defer life.Close()
	defer r.Close()
	var w world.World
	fd := int(r.Fd())
	stop, stopped := make(chan bool), make(chan bool)
	go func() { // as often as it takes, to come between a rank's opening and reading
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				syscall.SetNonblock(fd, false)
			}
		}
	}()
	require.NoError(t, w.Setup(t.Context(), world.Config{Getenv: vars(fmt.Sprintf("%s GOMOE_LIFELINE=%d", job(0, 1, address(t)), fd))}))
	time.Sleep(10 * time.Millisecond)
	close(stop)
	<-stopped
	done := make(chan error, 1)
	go func() { done <- w.Close() }()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(2 * time.Minute):
		t.Fatal("Close does not return")
	}
}
