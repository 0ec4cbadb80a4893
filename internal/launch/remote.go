package launch

import (
	"fmt"
	"strings"
	"time"
)

// loader is the command running on another machine. It is an argument there, visible to
// all its users; everything else is sent on its standard input, as lines for the shell.
// Its quotes and other characters mean the same in every login shell. If the input ends
// before the script's last line, which exits, the exit status is not 0.
const loader = `exec /bin/sh -c 'while IFS= read -r l; do eval "$l"; done; exit 70'`

// script returns the loader's input for a rank. Its last line is followed by names of
// signals for the rank, one per line; the end of the input ends the rank.
//
// The rank runs in the foreground, because a shell's background commands ignore SIGINT. A
// second shell concurrently reads the input. All are in the process group made by sshd,
// which kill calls 0; the shells ignore the signals that they send to it.
func script(p place, env []string, dir string, command []string, grace time.Duration) string {
	var b strings.Builder
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		fmt.Fprintf(&b, "%s; export %s\n", assign(name, value), name)
	}
	fmt.Fprintf(&b, "%s; cd \"$d\" || exit 126\n", assign("d", dir))
	b.WriteString("set --\n")
	for _, a := range command {
		fmt.Fprintf(&b, "%s; set -- \"$@\" \"$a\"\n", assign("a", a))
	}
	// In tenths of a second: the interval at which the script checks whether the rank has
	// ended.
	tenths := max(int(grace/(100*time.Millisecond)), 1)
	fmt.Fprintf(&b, `exec 3<&0; trap : TERM HUP INT; `+
		`(trap "" TERM HUP INT; while IFS= read -r s <&3; do kill -"$s" 0; done; `+
		`kill -TERM 0; i=0; while [ $i -lt %d ] && kill -0 $$ 2>/dev/null; do sleep 0.1; i=$((i+1)); done; kill -KILL 0) >/dev/null 2>&1 & `+
		`"$@" </dev/null 3<&-; exit $?`+"\n", tenths)
	return b.String()
}

// assign returns a shell command in one line that sets a variable to any text without
// zero bytes.
func assign(name, value string) string {
	if !strings.Contains(value, "\n") {
		return name + "='" + strings.ReplaceAll(value, "'", `'\''`) + "'"
	}
	// printf undoes the backslashes. The x protects trailing newlines, which the shell
	// would drop.
	escaped := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "'", `'\''`, "%", "%%").Replace(value)
	return name + "=$(printf '" + escaped + "x'); " + name + "=${" + name + "%x}"
}
