package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal returns a terminal, and what is written to it.
func terminal(t *testing.T) (to, from *os.File) {
	from, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { from.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(from.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(from.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	to, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { to.Close() })
	return to, from
}

// A terminal is told how much room there is before the text begins, also without -stats.
func TestTerminalIsToldTheRoom(t *testing.T) {
	dir := bytesModel(t)
	require.NoError(t, os.WriteFile(dir+"/chat_template.jinja", []byte("{{ messages[0].content }}"), 0o666))
	for _, args := range []string{"generate MODEL -prompt !# -n 4", "chat MODEL -n 4"} {
		to, from := terminal(t)
		code := run(t.Context(), strings.Fields(strings.ReplaceAll(args, "MODEL", dir)), strings.NewReader("!#\n"), io.Discard, to)
		fmt.Fprintln(to, "the end")
		line, err := bufio.NewReader(from).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, 0, code, line)
		require.Regexp(t, "^room for [0-9]+ positions; a rank takes ", line)
	}
}
