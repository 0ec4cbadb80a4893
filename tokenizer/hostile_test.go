package tokenizer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/quoted"
)

// Every error of a tokenizer.json says which part is wrong, and what it should be.
func TestErrors(t *testing.T) {
	const model = `"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}`
	file := func(more string) string { return "{" + model + "," + more + "}" }
	for _, c := range []struct{ file, want string }{
		{``, "ends in the middle"},
		{`[]`, "tokenizer: array, want an object"},
		{`{}`, "no model, want the file tokenizer.json of a model"},
		{`{"model":{"type":"WordPiece","vocab":{}}}`, `model: type "WordPiece", want BPE or Unigram`},
		{`{"model":{"type":"BPE","vocab":[]}}`, "model: vocab: array, want an object"},
		{`{"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}}`, `model: vocab: token "a": id -1, want 0 to 1048577 for 1 tokens`},
		{`{"model":{"type":"BPE","vocab":{"a":2000000000},"merges":[]}}`, `model: vocab: token "a": id 2000000000, want 0 to`},
		{`{"model":{"type":"BPE","vocab":{"a":1,"b":1},"merges":[]}}`, `model: vocab: tokens "a" and "b" have one id, 1`},
		{`{"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}}`, `model: merge 0 ("a", "b"): token "b" is not in the vocabulary`},
		{`{"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":["a b"]}}`, `token "ab" is not in the vocabulary`},
		{`{"model":{"type":"BPE","vocab":{"a":0},"merges":["a"]}}`, `merge "a", want two tokens with a space between them`},
		{`{"model":{"type":"BPE","vocab":{"a":0},"merges":[["a",null]]}}`, `model.merges.0: 1: null, want a text`},
		{`{"model":{"type":"BPE","vocab":{"a":0},"merges":[["a","b","c"]]}}`, `a merge of 3 tokens, want 2`},
		{`{"model":{"type":"BPE","vocab":{"a":0},"merges":[],"unk_token":"u"}}`, `model: unk_token "u" is not in the vocabulary`},
		{`{"model":{"type":"BPE","vocab":{"a":0},"merges":[],"dropout":0.1}}`, `model: dropout of 0.1, want none`},
		{`{"model":{"type":"Unigram","vocab":[["a",0]],"unk_id":1}}`, `model: unk_id 1, want that of one of 1 pieces`},
		{`{"model":{"type":"Unigram","vocab":[["a",0],["a",1]]}}`, `model: vocab: piece "a" is there twice`},
		{`{"model":{"type":"Unigram","vocab":[["a"]]}}`, `model: vocab: 0: a piece with 1 parts, want its text and its score`},
		{file(`"normalizer":{"type":"Precompiled","precompiled_charsmap":"AAAA"}`), "normalizer: precompiled_charsmap: fewer than 4 bytes"},
		{file(`"normalizer":{"type":"Precompiled","precompiled_charsmap":"/////w=="}`), "the size of its table is wrong"},
		{file(`"normalizer":{"type":"New"}`), `normalizer: type "New", want Sequence, NFC`},
		{file(`"normalizer":{"type":"Sequence","normalizers":[null]}`), `normalizer: null, want a component`},
		{file(`"normalizer":` + strings.Repeat(`{"type":"Sequence","normalizers":[`, 30) + strings.Repeat("]}", 30)), "more than 20 deep"},
		{file(`"normalizer":{"type":"Replace"}`), "normalizer: Replace: no pattern"},
		{file(`"pre_tokenizer":{"type":"Split","behavior":"Isolated","pattern":{"Regex":"(a"}}`), `pre_tokenizer: Split: pattern: "(a": byte 2: a group is not closed`},
		{file(`"pre_tokenizer":{"type":"Split","behavior":"Cut","pattern":{"String":"a"}}`), `pre_tokenizer: Split: behavior "Cut", want Removed`},
		{file(`"pre_tokenizer":{"type":"Metaspace","replacement":""}`), `Metaspace: replacement "", want one character`},
		{file(`"pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"x"}`), `prepend_scheme "x", want always, first or never`},
		{file(`"pre_tokenizer":{"type":"CharDelimiterSplit","delimiter":"ab"}`), `delimiter "ab", want one character`},
		{file(`"post_processor":{"type":"TemplateProcessing","single":[]}`), "single has the text 0 times, want once"},
		{file(`"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},{"Sequence":{"id":"A"}}]}`), `token "x" is not among special_tokens`},
		{file(`"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},{"Sequence":{"id":"A"}}],"special_tokens":{"x":{"ids":[9]}}}`), `post_processor: id 9, which no token has`},
		{file(`"post_processor":{"type":"BertProcessing","cls":1}`), "cls and sep: want a token and its id"},
		{file(`"decoder":{"type":"CTC"}`), `decoder: type "CTC", want Sequence`},
		{file(`"decoder":{"type":"Strip","content":" ","start":-1}`), "start -1 and stop 0, want no negative numbers"},
		{file(`"decoder":{"type":"Replace","pattern":{"Regex":"a"}}`), "want a pattern String"},
		{`{"added_tokens":[{"id":3,"content":"x"}],"model":{"type":"BPE","vocab":{"a":0,"b":2},"merges":[]}}`, `added_tokens: tokens "b" and "x" have one id, 2`},
		{file(`"added_tokens":[{"id":3,"content":"` + strings.Repeat("x", 2000) + `"}]`), "2000 bytes, want at most 1024"},
	} {
		_, err := Parse([]byte(c.file))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", quoted.Text(c.file), err, c.want)
		}
	}
}

// Errors of Open name the file.
func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tokenizer.json")
	config := filepath.Join(dir, "tokenizer_config.json")
	_, err := Open(dir)
	require.ErrorContains(t, err, dir+": a folder without a tokenizer")
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o644))
	_, err = Open(dir)
	require.ErrorContains(t, err, path)
	data, err := Bytes()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o644))
	_, err = Open(dir)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(config, []byte(`{"bos_token":{"content":"a"},"eos_token":"z","pad_token":null}`), 0o644))
	tok, err := Open(path)
	require.NoError(t, err)
	require.Equal(t, Special{BOS: 'a', EOS: 'z', Pad: -1, Unknown: -1}, tok.Special())
	for _, c := range []struct{ config, want string }{
		{`{"bos_token":7}`, "bos_token: number, want a text"},
		{`{"added_tokens_decoder":{"x":{"content":"y"}}}`, `added_tokens_decoder: "x", want the id of a token`},
		{`{"split_special_tokens":true}`, "tokenizer_config.json: split_special_tokens is true, want false"},
		{`{"split_special_tokens":1}`, "split_special_tokens"},
		{`{"added_tokens_decoder":[]}`, "added_tokens_decoder: array, want an object"},
		{`{"extra_special_tokens":{"a_token":[]}}`, "extra_special_tokens: a_token: "},
		{`{`, "ends in the middle"},
	} {
		require.NoError(t, os.WriteFile(config, []byte(c.config), 0o644))
		_, err = Open(dir)
		require.ErrorContains(t, err, config)
		require.ErrorContains(t, err, c.want)
	}
}

// A pattern that would take exponential time ends with an error.
func TestSlowPattern(t *testing.T) {
	file := `{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"pre_tokenizer":{"type":"Split","behavior":"Isolated","pattern":{"Regex":"(?:a+a+)+b"}}}`
	tok, err := Parse([]byte(file))
	require.NoError(t, err)
	_, err = tok.Encode(strings.Repeat("a", 4000), Options{})
	require.ErrorContains(t, err, "the pattern takes too many steps on this text")
}

// encoded checks that the ids of a text are those of tokens, and that a stream has the text of all of them.
func encoded(t *testing.T, tok *Tokenizer, text string) {
	ids, err := tok.Encode(text, Options{})
	if err != nil {
		return
	}
	for _, id := range ids {
		if _, ok := tok.Text(id); !ok {
			t.Fatalf("id %d, which no token has", id)
		}
	}
	streamed(t, tok, ids)
}

func FuzzParse(f *testing.F) {
	for _, file := range fixtures(f, "tokenizers.zip") {
		if len(file) < 60_000 {
			f.Add(file, "Hello <s> wörld \xff 12345")
		}
	}
	for _, n := range []string{"ByteFallback", "Fuse", "ByteLevel"} {
		f.Add(fmt.Appendf(nil, `{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"<0xE4>":3},"merges":["a b"]},"decoder":{"type":%q}}`, n), "abba")
	}
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		tok, err := Parse(file)
		if err != nil {
			return
		}
		encoded(t, tok, text)
	})
}

// A stream gives what Decode gives, in whole characters, for any ids.
func FuzzStream(f *testing.F) {
	files := fixtures(f, "tokenizers.zip")
	var toks []*Tokenizer
	for _, name := range []string{"gpt2", "llama2", "metaspace", "clip", "unknown"} {
		tok, err := Parse(files[name+"/tokenizer.json"])
		require.NoError(f, err)
		toks = append(toks, tok)
	}
	f.Add([]byte("\x00\x01\x20\x00\xe4\x00\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var ids []int32
		for i := 0; i+1 < len(data); i += 2 {
			ids = append(ids, int32(data[i])<<8&0x300|int32(data[i+1]))
		}
		for _, tok := range toks {
			streamed(t, tok, ids)
		}
	})
}

// streamed compares a stream with Decode, and checks that characters are whole.
func streamed(t *testing.T, tok *Tokenizer, ids []int32) {
	s := tok.Stream()
	got := ""
	for _, id := range ids {
		part := s.Push(id)
		if strings.ToValidUTF8(part, "") != part {
			t.Fatalf("ids %v: part %q has a part of a character", ids, part)
		}
		got += part
	}
	if got += s.Flush(); got != tok.Decode(ids) {
		t.Fatalf("ids %v: the stream gives %q, Decode %q", ids, got, tok.Decode(ids))
	}
}

// An id that no token has is no text.
func TestStrangeIDs(t *testing.T) {
	data, err := Bytes()
	require.NoError(t, err)
	tok, err := Parse(data)
	require.NoError(t, err)
	require.Equal(t, "a", tok.Decode([]int32{-1, 'a', 256, 1 << 30}))
}
