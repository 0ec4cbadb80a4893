package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// addressOf reads what serve prints until it says where it listens.
func addressOf(t *testing.T, lines *bufio.Scanner) string {
	t.Helper()
	for lines.Scan() {
		if _, addr, ok := strings.Cut(lines.Text(), " at http://"); ok {
			return addr
		}
	}
	t.Fatalf("the server did not begin: %v", lines.Err())
	return ""
}

// completeText asks for a text and returns the answer.
func completeText(t *testing.T, addr, body string) (status int, answer string) {
	t.Helper()
	r, err := http.Post("http://"+addr+"/v1/completions", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, string(b)
}

// A server answers what generate writes, and ends without an error when it is told to.
func TestServe(t *testing.T) {
	dir := bytesModel(t)
	_, want, _ := generateRun(t, "", dir, "-prompt", "!\"#$", "-n", "10")
	for _, mesh := range []string{"", "ep=2"} {
		ctx, end := context.WithCancel(context.Background())
		r, w := io.Pipe()
		ended := make(chan int)
		go func() {
			ended <- run(ctx, []string{"serve", dir, "-listen", "127.0.0.1:0", "-mesh", mesh, "-name", "m"}, nil, io.Discard, w)
			w.Close()
		}()
		lines := bufio.NewScanner(r)
		require.True(t, lines.Scan())
		require.Contains(t, lines.Text(), "room for 96 positions for each of 4 sequences; a rank takes ")
		addr := addressOf(t, lines)
		status, answer := completeText(t, addr, `{"model": "m", "prompt": "!\"#$", "max_tokens": 10, "temperature": 0}`)
		require.Equal(t, 200, status, answer)
		require.Contains(t, answer, `"text":`+jsonText(t, strings.TrimSuffix(want, "\n")))
		end()
		go io.Copy(io.Discard, r)
		require.Equal(t, 0, <-ended)
	}
}

func jsonText(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	require.NoError(t, err)
	return string(b)
}

func TestServeRefuses(t *testing.T) {
	dir := bytesModel(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	empty := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(empty, []byte("\nsecret"), 0o600))
	marked := empty + "-marked" // by an editor: a byte order mark is no key
	require.NoError(t, os.WriteFile(marked, []byte("\ufeff\nsecret"), 0o600))
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitUsage, "0 paths [], want one"},
		{[]string{dir, "-sequences", "0"}, exitUsage, "-sequences 0: want at least 1"},
		{[]string{dir, "-queue", "0"}, exitUsage, "-queue 0: want at least 1"},
		{[]string{dir, "-room", "97"}, exitUsage, "-room 97: the model takes 96 positions"},
		{[]string{dir, "-room", "-1"}, exitUsage, "-room -1: want at least 1"},
		{[]string{dir, "-max-tokens", "-1"}, exitUsage, "-max-tokens -1: want at least 1, or 0"},
		{[]string{dir, "-host", "a:80"}, exitUsage, "want the name of a host without a port"},
		{[]string{dir, "-grace", "0s"}, exitUsage, "-grace 0s: want a time above 0"},
		{[]string{dir, "-max-body", "0"}, exitUsage, "-max-body 0: want at least 1"},
		{[]string{dir, "-mesh", "ep=7"}, exitUsage, "-mesh ep=7: the model has 6 experts"},
		{[]string{dir, "-listen", "8000"}, exitUsage, "-listen 8000: want an address and a port, such as 127.0.0.1:8080"},
		{[]string{dir, "-listen", "127.0.0.1:99999"}, exitUsage, "-listen 127.0.0.1:99999: want an address and a port"},
		{[]string{dir, "-listen", l.Addr().String()}, exitWrong, "address already in use"},
		{[]string{dir, "-api-key-file", "/nothing"}, exitWrong, "-api-key-file: open /nothing"},
		{[]string{dir, "-api-key-file", empty}, exitWrong, "the first line is empty"},
		{[]string{dir, "-api-key-file", marked}, exitWrong, "the first line is empty"},
	} {
		var out, wrong strings.Builder
		code := run(context.Background(), append([]string{"serve"}, c.args...), strings.NewReader(""), &out, &wrong)
		if code != c.code || out.Len() > 0 || !strings.Contains(wrong.String(), c.want) {
			t.Errorf("%q: exit %d, %q %q, want %d and %q", c.args, code, out.String(), wrong.String(), c.code, c.want)
		}
	}
}

// Under a launcher all ranks compute, and the first one listens. Clients of a rank that dies get an error, and the job
// ends with its name. A job that is told to end answers first.
func TestServeRanks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs /bin/sh")
	}
	dir := bytesModel(t)
	for _, dies := range []bool{true, false} {
		cmd := exec.Command(os.Args[0], "launch", "-n", "2", "-grace", "100s", "--", "/bin/sh", "-c", `if [ $RANK = 1 ]; then echo pid $$ >&2; fi; exec "$0" "$@"`,
			os.Args[0], "serve", dir, "-mesh", "ep=2", "-listen", "127.0.0.1:0", "-name", "m", "-max-tokens", "1000000000")
		cmd.Env = append(os.Environ(), asTool+"=1")
		stderr, err := cmd.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(stderr)
		pid, addr := 0, ""
		for (pid == 0 || addr == "") && lines.Scan() {
			if _, number, ok := strings.Cut(lines.Text(), "[1] pid "); ok {
				pid, err = strconv.Atoi(number)
				require.NoError(t, err)
			} else if _, a, ok := strings.Cut(lines.Text(), " at http://"); ok {
				addr = a
			}
		}
		n := 3000
		if dies {
			n = 1000000000
		}
		r, err := http.Post("http://"+addr+"/v1/completions", "application/json", strings.NewReader(fmt.Sprintf(`{"prompt": "!", "max_tokens": %d, "slide": true, "stream": true}`, n)))
		require.NoError(t, err)
		rank, err := os.FindProcess(pid)
		require.NoError(t, err)
		if dies {
			require.NoError(t, rank.Kill())
		} else {
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
		}
		answer, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		rest, err := io.ReadAll(stderr)
		require.NoError(t, err)
		wrong := cmd.Wait()
		if dies {
			require.Contains(t, string(answer), `data: {"error":{"message":"generate: `)
			require.Contains(t, string(answer), "rank 1")
			require.ErrorContains(t, wrong, "exit status")
			require.Contains(t, string(rest), "FAILED: rank 1 was ended by SIGKILL")
		} else {
			require.True(t, strings.HasSuffix(string(answer), "data: [DONE]\n\n") || strings.Contains(string(answer), "the server is stopping"), "%.200s", rest)
			require.NotContains(t, string(rest), "rank 1 ended")
		}
	}
}

// A server whose rank dies is there again after a restart, at the same address.
func TestServeRestarts(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs /bin/sh")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	dir := bytesModel(t)
	cmd := exec.Command(os.Args[0], "launch", "-n", "2", "-restarts", "1", "-grace", "100s", "--", "/bin/sh", "-c", `if [ $RANK = 1 ]; then echo pid $$ >&2; fi; exec "$0" "$@"`,
		os.Args[0], "serve", dir, "-mesh", "ep=2", "-listen", addr, "-name", "m")
	cmd.Env = append(os.Environ(), asTool+"=1")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // where the test ends before the job
	lines, texts, said := bufio.NewScanner(stderr), []string{}, ""
	for range 2 {
		pid, at := 0, ""
		for (pid == 0 || at == "") && lines.Scan() {
			said += lines.Text() + "\n"
			if _, number, ok := strings.Cut(lines.Text(), "[1] pid "); ok {
				pid, err = strconv.Atoi(number)
				require.NoError(t, err)
			} else if _, a, ok := strings.Cut(lines.Text(), " at http://"); ok {
				at = a
			}
		}
		require.Equal(t, addr, at, said)
		status, answer := completeText(t, addr, `{"prompt": "!", "max_tokens": 5, "temperature": 0}`)
		require.Equal(t, 200, status, answer)
		_, text, _ := strings.Cut(answer, `"text":`)
		texts = append(texts, text)
		if len(texts) == 1 {
			rank, err := os.FindProcess(pid)
			require.NoError(t, err)
			require.NoError(t, rank.Kill())
		}
	}
	require.Equal(t, texts[0], texts[1])
	require.Contains(t, said, "FAILED: rank 1 was ended by SIGKILL")
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	_, err = io.Copy(io.Discard, stderr)
	require.NoError(t, err)
	_ = cmd.Wait() // a job that was told to end says so in its status
}
