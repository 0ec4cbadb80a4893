package main

import (
	"bytes"
	"context"
	"errors"

	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/tokenizer"
)

// bytesModel returns a folder with a model of 40 tokens, which are bytes.
func bytesModel(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"model.safetensors", checkpoint.ConfigName} {
		b, err := os.ReadFile(filepath.Join("../../models/testdata/mixtral", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o666))
	}
	b, err := tokenizer.Bytes()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, tokenizer.FileName), b, 0o666))
	return dir
}

func generateRun(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, wrong bytes.Buffer
	code = run(context.Background(), append([]string{"generate"}, args...), strings.NewReader(stdin), &out, &wrong)
	return code, out.String(), wrong.String()
}

func TestGenerate(t *testing.T) {
	dir := bytesModel(t)
	code, text, wrong := generateRun(t, "", dir, "-prompt", "!\"#$", "-n", "30")
	require.Equal(t, 0, code, wrong)
	require.Len(t, text, 31, "30 bytes and the end of the line")
	require.Empty(t, wrong)

	// A file and standard input are prompts, too.
	file := filepath.Join(t.TempDir(), "prompt")
	require.NoError(t, os.WriteFile(file, []byte("!\"#$"), 0o666))
	code, again, wrong := generateRun(t, "", dir, "-file", file, "-n", "30")
	require.Equal(t, 0, code, wrong)
	require.Equal(t, text, again)
	code, again, wrong = generateRun(t, "!\"#$", dir, "-file", "-", "-n", "30", "-mesh", "ep=3", "-stats")
	require.Equal(t, 0, code, wrong)
	require.Equal(t, text, again)
	require.Contains(t, wrong, "room for 33 positions; a rank takes ")
	require.Contains(t, wrong, "prompt: 4 tokens in ")
	require.Regexp(t, `\nrank 0: steps [0-9.]+ s, of which compute [0-9.]+ s \([0-9]+%\), exchange [0-9.]+ s \([0-9]+%\), waiting [0-9.]+ s \(`, wrong)
	require.Contains(t, wrong, "written: 30 tokens, ")

	// The text ends before the first text at which to stop.
	code, again, wrong = generateRun(t, "", dir, "-prompt", "!\"#$", "-n", "30", "-stop", text[10:12], "-stop", "nothing")
	require.Equal(t, 0, code, wrong)
	require.Equal(t, text[:strings.Index(text, text[10:12])]+"\n", again)

	code, again, wrong = generateRun(t, "", dir, "-prompt", "!\"#$", "-n", "30", "-temperature", "1", "-compare", "1,2,3")
	require.Equal(t, 0, code, wrong)
	require.NotEqual(t, text, again)
	require.Equal(t, "30 tokens at temperature 1 and 30 at temperature 0, the same on 1, 2, 3 ranks\n", wrong)
}

// A text whose room is full goes on if that is asked for, and as far as the room goes it is the same.
func TestGenerateSlides(t *testing.T) {
	dir := bytesModel(t)
	_, want, _ := generateRun(t, "", dir, "-prompt", "!\"#$", "-n", "17")
	for _, more := range [][]string{{"-room", "20"}, {"-room", "20", "-keep", "4"}, nil} {
		code, text, wrong := generateRun(t, "", append([]string{dir, "-prompt", "!\"#$", "-n", "200", "-slide"}, more...)...)
		require.Equal(t, 0, code, wrong)
		require.Len(t, text, 201)
		require.Equal(t, strings.TrimSuffix(want, "\n"), text[:17])
	}
	code, text, wrong := generateRun(t, "", dir, "-prompt", "!", "-n", "1", "-slide", "-keep", "1")
	require.Equal(t, 0, code, wrong)
	require.Len(t, text, 2)
}

// Where nothing is said about the length, a text is as long as there is room.
func TestGenerateUsualLength(t *testing.T) {
	dir := bytesModel(t)
	for _, c := range []struct {
		prompt, written int
		more            []string
	}{{50, 47, nil}, {96, 1, nil}, {4, 7, []string{"-room", "10"}}} {
		code, text, wrong := generateRun(t, "", append([]string{dir, "-prompt", strings.Repeat("!", c.prompt)}, c.more...)...)
		require.Equal(t, 0, code, wrong)
		require.Len(t, text, c.written+1)
	}
}

// The token that ends a text is not written, and ends it.
func TestGenerateEnds(t *testing.T) {
	dir := bytesModel(t)
	_, text, _ := generateRun(t, "", dir, "-prompt", "!\"#$", "-n", "30")
	path := filepath.Join(dir, checkpoint.ConfigName)
	config, err := os.ReadFile(path)
	require.NoError(t, err)
	end := text[7]
	changed := strings.Replace(string(config), `"eos_token_id": null`, `"eos_token_id": [99, `+strconv.Itoa(int(end))+`]`, 1)
	require.NotEqual(t, string(config), changed)
	require.NoError(t, os.WriteFile(path, []byte(changed), 0o666))
	code, again, wrong := generateRun(t, "", dir, "-prompt", "!\"#$", "-n", "30")
	require.Equal(t, 0, code, wrong)
	require.Equal(t, text[:strings.IndexByte(text, end)]+"\n", again)
}

// Guesses leave the text as it is, and are told.
func TestGenerateSpeculates(t *testing.T) {
	dir := bytesModel(t)
	prompt := strings.Repeat("!\"#$%&", 3)
	_, want, _ := generateRun(t, "", dir, "-prompt", prompt, "-n", "60")
	code, got, told := generateRun(t, "", dir, "-prompt", prompt, "-n", "60", "-speculate", "ngram", "-stats")
	require.Equal(t, 0, code, told)
	require.Equal(t, want, got)
	require.Regexp(t, `guesses: \d+ of \d+ were right, \d\.\d tokens a step`, told)
}

// A run continues from the states of the one before, with the same text.
func TestGenerateState(t *testing.T) {
	args := []string{bytesModel(t), "-prompt", "!\"#$%&", "-n", "20", "-stats", "-state", filepath.Join(t.TempDir(), "states")}
	_, want, told := generateRun(t, "", args...)
	require.Contains(t, told, "prompt: 6 tokens in ")
	require.NotContains(t, told, "from -state")
	code, got, told := generateRun(t, "", args...)
	require.Equal(t, 0, code, told)
	require.Equal(t, want, got)
	require.Regexp(t, `prompt: 1 tokens in .*, and 5 from -state`, told)
	code, _, told = generateRun(t, "", append(args, "-cache", "f16")...)
	require.Equal(t, exitWrong, code)
	require.Contains(t, told, "states.safetensors: the states are of another model, of other weights, or of caches of another type; remove the file, or give another folder")
}

func TestGenerateRefuses(t *testing.T) {
	dir := bytesModel(t)
	bare := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitUsage, "0 paths [], want one: the folder of a model, or a GGUF file"},
		{[]string{dir}, exitUsage, "no text to continue, want -prompt TEXT or -file FILE"},
		{[]string{dir, "-prompt", "!", "-file", "-"}, exitUsage, "-prompt and -file, want one of them"},
		{[]string{dir, "-prompt", "!", "-n", "97"}, exitUsage, "a prompt of 1 tokens and -n 97 need room for 97 positions, and the model takes 96: give -n 96 at most, or -slide"},
		{[]string{dir, "-prompt", strings.Repeat("!", 97)}, exitUsage, "a prompt of 97 tokens, and the model takes 96 positions: shorten it, or give -slide"},
		{[]string{dir, "-prompt", "!", "-promt", "!"}, exitUsage, "there is no flag -promt; did you mean -prompt?"},
		{[]string{dir, "-prompt", "!", "-keep", "3"}, exitUsage, "-keep 3: want at least 0, and -slide beside it"},
		{[]string{dir, "-prompt", "!", "-slide", "-room", "1", "-n", "5"}, exitUsage, "-room 1: want room for at least 2 positions with -slide"},
		{[]string{dir, "-prompt", "!", "-keep", "19", "-slide", "-room", "20", "-n", "50"}, exitUsage, "-keep 19: want at most 18, as there is room for 20 positions"},
		{[]string{dir, "-prompt", "!!!", "-n", "95"}, exitUsage, "a prompt of 3 tokens and -n 95 need room for 97 positions, and the model takes 96: give -n 94 at most"},
		{[]string{dir, "-prompt", "!", "-n", "9223372036854775807"}, exitUsage, "and the model takes 96: give -n 96 at most"},
		{[]string{dir, "-prompt", "!", "-n", "0"}, exitUsage, "-n 0: want at least 1"},
		{[]string{dir, "-prompt", "!", "-n", "9", "-room", "97"}, exitUsage, "-room 97: the model takes 96 positions"},
		{[]string{dir, "-prompt", "!", "-n", "9", "-room", "8"}, exitUsage, "-room 8: a prompt of 1 tokens and -n 9 need 9 positions; raise -room or give -slide"},
		{[]string{dir, "-prompt", "!", "-n", "9", "-top-k", "3"}, exitUsage, "wants a -temperature above 0"},
		{[]string{dir, "-prompt", "!", "-n", "9", "-mesh", "x=2"}, exitUsage, "-mesh x=2: axis x, want ep"},
		{[]string{dir, "-prompt", "!", "-n", "9", "-mesh", "dp=2"}, exitUsage, "-mesh dp=2: axis dp, want ep, which splits the experts, or tp, which splits heads; along others all ranks would compute the same"},
		{[]string{dir, "-prompt", "!", "-n", "9", "-mesh", "ep=7"}, exitUsage, "-mesh ep=7: the model has 6 experts"},
		{[]string{dir, "-prompt", "!", "-n", "9", "-mesh", "tp=3"}, exitUsage, "-mesh tp=3: the model's 2 heads of keys and values do not divide evenly over 3 ranks along tp"},
		{[]string{dir, "-prompt", "!", "-n", "9", "-compare", "7"}, exitUsage, "-compare 7: the model has 6 experts"},
		{[]string{dir, "-file", "/dev/zero", "-n", "9"}, exitWrong, "-file: open /dev/zero: this is a device, want a file"},
		{[]string{dir, "-prompt", "abc", "-n", "9"}, exitWrong, "the tokenizer makes token 97 of the text, and the model has 40 tokens: they are of different models"},
		{[]string{dir, "-prompt", "!", "-temperature", "-1"}, exitUsage, "temperature -1, want a number from 0 to 3.4e+38"},
		{[]string{dir, "-prompt", "!", "-n", "9", "-compare", "1", "-state", "x"}, exitUsage, "-compare computes the prompt on every mesh; leave out -state"},
		{[]string{dir, "-prompt", "!", "-speculate", "mtp"}, exitUsage, "for flag -speculate: want off or ngram"},
		{[]string{dir, "-prompt", "!", "-cache", "i32"}, exitUsage, "want f32, bf16, f16 or q8_0"},
		{[]string{dir, "-prompt", "!", "-n", "9", "-compare", "1,x"}, exitUsage, `-compare "1,x": want numbers of ranks such as 1,2,4`},
		{[]string{dir, "-prompt", "!", "-n", "9", "-compare", "1", "-mesh", "ep=2"}, exitUsage, "-compare makes its own meshes"},
		{[]string{bare, "-prompt", "!"}, exitWrong, "no model in the folder"},
	} {
		code, out, wrong := generateRun(t, "", c.args...)
		if code != c.code || strings.TrimSpace(out) != "" || !strings.Contains(wrong, c.want) {
			t.Errorf("%q: exit %d, %q %q, want %d and %q", c.args, code, out, wrong, c.code, c.want)
		}
	}
}

// An error of the output ends the text.
func TestOutputFails(t *testing.T) {
	g := newOutput(failing{})
	if g.print("a") || g.err == nil {
		t.Error("an error of the output is not seen")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

// Control characters in names and on command lines do not reach the terminal.
func TestErrorsAreQuoted(t *testing.T) {
	code, _, wrong := generateRun(t, "", "\x1b[31mmodel", "-prompt", "!")
	if code != exitWrong || !strings.Contains(wrong, `stat \x1b[31mmodel: `) || strings.ContainsRune(wrong, 0x1b) {
		t.Errorf("exit %d, %q", code, wrong)
	}
}

// A file that says which tokens end a text, beside config.json, counts too.
func TestGenerationConfigEnds(t *testing.T) {
	dir := bytesModel(t)
	_, text, _ := generateRun(t, "", dir, "-prompt", "!\"#$", "-n", "30")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "generation_config.json"), []byte(`{"eos_token_id": [`+strconv.Itoa(int(text[5]))+`]}`), 0o666))
	code, again, wrong := generateRun(t, "", dir, "-prompt", "!\"#$", "-n", "30")
	require.Equal(t, 0, code, wrong)
	require.Equal(t, text[:strings.IndexByte(text, text[5])]+"\n", again)
}
