package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// chatModel is bytesModel with a chat template of bytes that the model has.
func chatModel(t *testing.T) string {
	t.Helper()
	dir := bytesModel(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"),
		[]byte(`{% for m in messages %}{{ {'system': '$', 'user': '!', 'assistant': '#'}[m.role] }}{{ m.content }}{% endfor %}#`), 0o666))
	return dir
}

func chatRun(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, wrong strings.Builder
	code = run(context.Background(), append([]string{"chat"}, args...), strings.NewReader(stdin), &out, &wrong)
	return code, out.String(), wrong.String()
}

// Every line is answered as generate continues the conversation up to it, and what is in the caches is used again.
func TestChat(t *testing.T) {
	dir := chatModel(t)
	code, out, wrong := chatRun("%%\n\n&\n", dir, "-n", "5", "-stats", "-system", "''", "-mesh", "ep=2")
	require.Equal(t, 0, code, wrong)
	_, first, _ := generateRun(t, "", dir, "-prompt", "$''!%%#", "-n", "5")
	_, second, _ := generateRun(t, "", dir, "-prompt", "$''!%%#"+first[:5]+"!&#", "-n", "5")
	require.Equal(t, first+second, out)
	require.Contains(t, wrong, "room for 96 positions; a rank takes ")
	require.Contains(t, wrong, "prompt: 7 tokens, of which 0 were in the caches, in ")
	require.Contains(t, wrong, "prompt: 15 tokens, of which 11 were in the caches, in ", "the last token of an answer is not computed")

	// Another conversation knows nothing of this one.
	code, out, wrong = chatRun("%%\n/new\n%%", dir, "-n", "5", "-system", "''")
	require.Equal(t, 0, code, wrong)
	require.Equal(t, first+first, out)
	require.Empty(t, wrong)
}

// Where the room is full the oldest messages are left out, but not that of the system.
func TestChatRoom(t *testing.T) {
	dir := chatModel(t)
	code, out, wrong := chatRun("%%\n&&\n$$\n", dir, "-n", "5", "-room", "24", "-system", "''")
	require.Equal(t, 0, code, wrong)
	require.Equal(t, "the context of 24 positions is full: dropping the oldest 2 messages\n", wrong)
	_, want, _ := generateRun(t, "", dir, "-prompt", "$''!&&#"+out[6:11]+"!$$#", "-n", "5")
	require.Equal(t, want, out[12:])
	// A message that is too long is not answered, and the conversation goes on.
	code, out, wrong = chatRun(strings.Repeat("%", 30)+"\n$$\n", dir, "-n", "5", "-room", "24")
	require.Equal(t, 1, code)
	require.Contains(t, wrong, "there is room for 24 positions; shorten it, or open the model with more room (-room)\n")
	_, want, _ = generateRun(t, "", dir, "-prompt", "!$$#", "-n", "5")
	require.Equal(t, want, out)
}

func TestChatRefuses(t *testing.T) {
	dir := chatModel(t)
	broken := chatModel(t)
	require.NoError(t, os.WriteFile(filepath.Join(broken, "chat_template.jinja"), []byte("{% include 'x' %}"), 0o666))
	for want, args := range map[string][]string{
		"0 paths [], want one": nil,
		"-n -1: want at least 1, or 0 for as many as there is room for":                                     {dir, "-n", "-1"},
		"-room 97: the model takes 96 positions":                                                            {dir, "-room", "97"},
		"the model has no chat template, which turns messages into text: use gomoe generate":                {bytesModel(t)},
		"chat_template.jinja: chat template default: line 1: an unknown or misplaced statement \"include\"": {broken},
		"temperature -1, want a number from 0 to 3.4e+38":                                                   {dir, "-temperature", "-1"},
		"wants a -temperature above 0":                                                                      {dir, "-top-k", "3"},
	} {
		code, out, wrong := chatRun("!\n", args...)
		if code == 0 || out != "" || !strings.Contains(wrong, want) {
			t.Errorf("%q: exit %d, %q %q, want %q", args, code, out, wrong, want)
		}
	}
	// What needs no template works.
	var out, stderr strings.Builder
	require.Equal(t, 0, run(t.Context(), []string{"generate", broken, "-prompt", "!", "-n", "2"}, strings.NewReader(""), &out, &stderr), stderr.String())
	code, _, wrong := chatRun(strings.Repeat("!", maxLine+1), dir)
	require.Equal(t, 1, code)
	require.Contains(t, wrong, "a line of more than 1048576 bytes")
}

// An interruption ends the conversation while it waits for a line.
func TestChatInterrupt(t *testing.T) {
	dir := chatModel(t)
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	defer w.Close()
	answers, to := io.Pipe()
	var wrong strings.Builder
	ended := make(chan int)
	go func() { ended <- run(ctx, []string{"chat", dir, "-n", "3"}, r, to, &wrong) }()
	_, err := io.WriteString(w, "!\n")
	require.NoError(t, err)
	b := make([]byte, 4)
	_, err = io.ReadFull(answers, b)
	require.NoError(t, err)
	cancel()
	require.Equal(t, exitWrong, <-ended)
	require.Equal(t, "gomoe chat: interrupted\n", wrong.String())
}
