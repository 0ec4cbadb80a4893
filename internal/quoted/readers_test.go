package quoted_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/parts"
	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/data"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/flight"
	"github.com/gomoe/gomoe/internal/tracefile"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/pretrain"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/tokenizer"
)

// long is a text that must reach no terminal: it clears the screen, turns the direction of writing, and is longer than any error.
var long = strings.Repeat("\x1b[2J\u202e\u009b", 2_500)[:20_000]

// inJSON are values that stand in place of each value of a JSON text; names are replaced by the first one.
func inJSON() []string {
	text, err := json.Marshal(long)
	if err != nil {
		panic(err)
	}
	list := strings.Repeat("1,", 10_000) + "1"
	return []string{string(text), strings.Repeat("9", 20_000), "[" + list + "]", "[" + string(text) + "]", "{" + string(text) + ": " + string(text) + "}", `"` + strings.Repeat("a", 20_000) + `"`, "-1", "null"}
}

var (
	tokensOfJSON  = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?[0-9][-+.eE0-9]*|true|false|null`)
	tokensOfGraph = regexp.MustCompile(`[A-Za-z_][A-Za-z_0-9.]*|[0-9]+|[^ \n]`)
	tokensOfText  = regexp.MustCompile(`[A-Za-z_]+|[0-9]+|[^ \nA-Za-z_0-9]`)
)

// mutants calls read with the texts that have another value in place of one token.
func mutants(text string, tokens *regexp.Regexp, values []string, read func(text string)) {
	read(text)
	for _, at := range tokens.FindAllStringIndex(text, -1) {
		for _, v := range values {
			read(text[:at[0]] + v + text[at[1]:])
		}
	}
	read(text[:len(text)/2])
	read(text[:len(text)/2] + long)
	read(long)
	read("")
}

// An error of a text from outside has less than 1 KiB, and no control characters, whatever stands in the text.
func TestReaders(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	const vocabulary = `{"model":{"type":"BPE","merges":[],"vocab":{"a":0,"b":1}}}`
	require.NoError(t, os.WriteFile(at("tokenizer.json"), []byte(vocabulary), 0o600))
	tok, err := tokenizer.Open(dir)
	require.NoError(t, err)
	failures := map[string]bool{}
	check := func(reader string, err error) {
		if err == nil {
			return
		}
		text := strings.ReplaceAll(err.Error(), dir, "")
		at := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) })
		longest := 1 << 10
		if reader == "graph" {
			longest = 9 << 10 // it shows the types of an equation
		}
		if at < 0 && len(text) < longest {
			return
		}
		const shown = 200
		brief := fmt.Sprintf("%s: %d bytes, control character at %d: %.*q … %q", reader, len(text), at, shown, text, text[max(0, len(text)-shown):])
		if key := fmt.Sprintf("%s %.60q", reader, text); !failures[key] {
			failures[key] = true
			t.Error(brief)
		}
	}
	file := func(name string, read func(path string) error) func(text string) error {
		return func(text string) error {
			require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600))
			defer os.Remove(at(name))
			return read(at(name))
		}
	}
	header := func(text string) string {
		return string(binary.LittleEndian.AppendUint64(nil, uint64(len(text)))) + text
	}
	for name, r := range map[string]struct {
		texts []string
		read  func(text string) error
	}{
		"tokenizer.json": {[]string{
			`{"added_tokens":[{"id":3,"content":"x","special":true}],"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Replace","pattern":{"String":"a"},"content":"b"},{"type":"Prepend","prepend":"x"}]},
"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","behavior":"Isolated","invert":false,"pattern":{"Regex":"a+"}},{"type":"Metaspace","replacement":"_","prepend_scheme":"first"},{"type":"CharDelimiterSplit","delimiter":"a"}]},
"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},{"Sequence":{"id":"A"}}],"special_tokens":{"x":{"ids":[1]}}},
"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"a"},"content":"b"},{"type":"Strip","content":" ","start":1,"stop":0},{"type":"Fuse"}]},
"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b",["b","ab"]],"unk_token":"a","dropout":0}}`,
			`{"model":{"type":"Unigram","unk_id":0,"vocab":[["a",0],["b",-1.5]]},"post_processor":{"type":"BertProcessing","cls":["a",0],"sep":["b",1]}}`,
		}, func(text string) error { _, err := tokenizer.Parse([]byte(text)); return err }},
		"tokenizer_config.json": {[]string{`{"bos_token":"a","eos_token":{"content":"b","lstrip":false},"add_bos_token":true,"added_tokens_decoder":{"1":{"content":"b","special":true}},"additional_special_tokens":["a"],"chat_template":"{{ messages[0].role }}"}`},
			file("tokenizer_config.json", func(string) error { _, err := tokenizer.Open(dir); return err })},
		"special_tokens_map.json": {[]string{`{"bos_token":"a","additional_special_tokens":["a"]}`}, file("special_tokens_map.json", func(string) error { _, err := tokenizer.Open(dir); return err })},
		"added_tokens.json":       {[]string{`{"c":2}`}, file("added_tokens.json", func(string) error { _, err := tokenizer.Open(dir); return err })},
		"safetensors": {[]string{`{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`},
			func(text string) error {
				return file("a.safetensors", func(path string) error {
					f, err := safetensors.Open(path)
					if err == nil {
						f.Close()
					}
					return err
				})(header(text) + "12345678")
			}},
		"index":          {[]string{`{"metadata":{"total_size":8},"weight_map":{"a":"x.safetensors"}}`}, file("model.safetensors.index.json", func(path string) error { _, err := safetensors.OpenSet(path); return err })},
		"adapter_config": {[]string{`{"peft_type":"LORA","r":8,"lora_alpha":16,"lora_dropout":0.1,"bias":"none","use_rslora":false,"init_lora_weights":true,"rank_pattern":{"a":1},"alpha_pattern":{"a":1},"modules_to_save":["a"],"target_parameters":["a"],"trainable_token_indices":{"a":[1]},"use_dora":false,"target_modules":["a"]}`, `{"fine_tune_type":"lora","num_layers":1,"lora_parameters":{"rank":8,"scale":2.0,"dropout":0,"keys":["a"]}}`}, file("adapter_config.json", func(string) error { _, err := peft.Open(dir, peft.Layout{}); return err })},
		"manifest":       {[]string{`{"format":"a","step":1,"files":[{"name":"a","parts":"b"}],"sum":"c"}`}, file(parts.ManifestName, func(path string) error { _, err := parts.ReadManifest(dir, filepath.Base(path)); return err })},
		"lines.jsonl": {[]string{`{"text":"a"}`, `{"prompt":"a","completion":"b"}`, `{"messages":[{"role":"user","content":"a","weight":1},{"role":"assistant","content":"b"}],"tools":[]}`, `{"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]}`, `{"instruction":"a","input":"b","output":"c","history":[["a","b"]],"system":"x"}`},
			file("lines.jsonl", func(path string) error {
				_, err := data.Build(context.Background(), at("data.safetensors"), []string{path}, data.Options{Tokenizer: tok})
				return err
			})},
		"settings": {[]string{`{"model":{"family":"olmoe","layers":2},"mesh":"dp=2","steps":3,"batch":4,"seed":1,"exact":false,"rate":{"peak":0.1,"name":"cosine"},"data":{"files":["a"],"tokenizer":"bytes"},"out":"a"}`}, func(text string) error { _, err := pretrain.Parse("s.json", []byte(text)); return err }},
		"flight": {[]string{`{"gomoe":"flight","rank":0,"size":1,"ops":[{"number":1,"op":"a","seq":1,"ranks":[0],"began":"2026-01-01T00:00:00Z","us":1,"state":"done"}]}`}, func(text string) error {
			d, err := flight.Parse("f.json", []byte(text))
			if err == nil {
				_, err = flight.Compare([]flight.Dump{d, d})
			}
			return err
		}},
		"trace": {[]string{`{"traceEvents":[{"name":"clock","ph":"M","tid":0,"args":{"start_unix_ns":1,"offset_ns":0,"uncertain_ns":0}},{"name":"a","ts":1.5,"dur":1,"ph":"X","tid":0}]}`}, func(text string) error {
			_, err := tracefile.Merge(io.Discard, []tracefile.Input{{Name: "a", R: strings.NewReader(text)}})
			return err
		}},
		"hostfile": {[]string{`[{"ssh":"a@b","ips":["10.0.0.1"],"rdma":[null,"rdma_en1"]},{"ssh":"b","ips":["10.0.0.2"],"rdma":["rdma_en1",null]}]`, `{"backend":"jaccl","envs":["A=b"],"hosts":[{"ssh":"a","ips":["10.0.0.1"]}]}`}, func(text string) error { _, err := hostfile.ParseHosts([]byte(text)); return err }},
		"devices":  {[]string{`[[null,"a"],[["b","c"],null]]`}, func(text string) error { _, err := hostfile.ParseDevices([]byte(text)); return err }},
		"nodes":    {[]string{`[["10.0.0.1:5000"],["10.0.0.2:5000","[fe80::1]:5000"]]`}, func(text string) error { _, err := hostfile.ParseNodes([]byte(text)); return err }},
		"template values": {[]string{`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"b"}],"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]}]`}, func(text string) error {
			_, err := withTemplate(t, dir, `{% for m in messages %}{{ m.role + m.content }}{{ raise_exception(m.content) if m.role == "x" }}{% endfor %}`).Prompt(tokenizer.Conversation{Messages: json.RawMessage(text)})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, text := range r.texts {
				mutants(text, tokensOfJSON, inJSON(), func(text string) { check(name, r.read(text)) })
			}
		})
	}
	values := []string{long, strings.Repeat("9", 20_000), strings.Repeat("a", 20_000), strings.Repeat("1,", 10_000) + "1", "%", "\x1b"}
	for name, r := range map[string]struct {
		texts  []string
		tokens *regexp.Regexp
		read   func(text string) error
	}{
		"graph": {[]string{"func f(x: f32[2,3], y: f32[3]) {\n  let\n    a: f32[2,3] = add(x, x)\n    b: f32[2] = sum(a; axes=[1])\n  in b\n}\n", axes(t)}, tokensOfGraph, func(text string) error { _, err := graph.Parse("p.graph", text, primitives.All()...); return err }},
		"mesh":  {[]string{"dp=2,ep=4", "ep=2*4"}, tokensOfText, func(text string) error { _, err := sharding.ParseMesh(text); return err }},
		"split": {[]string{"0-95,96-127", "128:64/24", "3"}, tokensOfText, func(text string) error { _, err := ep.ParseSplit(text); return err }},
		"npy": {[]string{"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"}, tokensOfText, func(text string) error {
			_, err := array.ReadNPY(strings.NewReader("\x93NUMPY\x02\x00" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(text)))) + text))
			return err
		}},
		"template": {[]string{`{% set a = 1 %}{% for m in messages %}{% if m.role == "user" %}{{ m.content | trim }}{% else %}{{ a + 1.5 }}{% endif %}{% endfor %}{%- macro f(a, b=1) -%}{{ a["x"] }}{%- endmacro -%}{{ f(1) }}{{ messages[0].content.split("a") }}{{ messages is defined }}`}, tokensOfText, func(text string) error {
			_, err := withTemplate(t, dir, text).Prompt(tokenizer.Conversation{Messages: json.RawMessage(`[{"role":"user","content":"a"}]`)})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, text := range r.texts {
				mutants(text, r.tokens, values, func(text string) { check(name, r.read(text)) })
			}
		})
	}
	t.Run("config.json", func(t *testing.T) {
		for _, family := range []string{"deepseek_v3_fp8", "gpt_oss", "qwen3_moe"} {
			path := filepath.Join("../../models/testdata", family, "config.json")
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			mutants(string(text), tokensOfJSON, inJSON(), func(text string) {
				check("config.json", file("config.json", func(path string) error {
					c, err := checkpoint.ReadConfig(path)
					if err != nil {
						return err
					}
					_, err = models.Open(&checkpoint.Checkpoint{Path: dir, Format: checkpoint.Safetensors, Config: c})
					return err
				})(text))
			})
		}
	})
	t.Run("environment", func(t *testing.T) {
		all := map[string]string{"GOMOE_RANK": "0", "GOMOE_SIZE": "2", "GOMOE_COORDINATOR": "127.0.0.1:1"}
		names := []string{"GOMOE_RANK"}
		for _, v := range environ.Variables() {
			names = append(names, v.Name)
		}
		for _, begin := range []map[string]string{{}, all, {"MLX_RANK": "0", "MLX_HOSTFILE": "/dev/null"}, {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "MASTER_ADDR": "a"}, {"PMI_RANK": "0", "PMI_SIZE": "2"},
			{"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "1", "SLURM_JOB_ID": "1", "SLURM_STEP_NODELIST": "a[1-2]"}} {
			for _, name := range names {
				for _, v := range values {
					env := maps.Clone(begin)
					env[name] = v
					_, err := environ.Detect(func(name string) string { return env[name] })
					check("environment", err)
				}
			}
		}
	})
}

// axes returns the text of a program with primitives that have parameters of several kinds.
func axes(t *testing.T) string {
	p, err := graph.Trace("f", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", graph.F32, 2, 4)
		return []*graph.Value{primitives.Reshape(primitives.Transpose(x, 1, 0), 8)}
	})
	require.NoError(t, err)
	return p.String()
}

func withTemplate(t *testing.T, dir, template string) *tokenizer.Tokenizer {
	path := filepath.Join(dir, "chat_template.jinja")
	require.NoError(t, os.WriteFile(path, []byte(template), 0o600))
	defer os.Remove(path)
	tok, err := tokenizer.Open(dir)
	require.NoError(t, err)
	return tok
}
