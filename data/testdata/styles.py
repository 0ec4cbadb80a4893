"""Makes styles.json.gz: conversations in the styles of published chat templates, with the tokens that transformers makes of
them, and which of them the model writes.

    pip install transformers==5.24 tokenizers jinja2
    python styles.py

The templates are written for this test. G( and )G stand around what the model writes: transformers gets a template with
{% generation %} there, for its assistant mask, and the test one without. Styles with "next" end a turn with the token that begins
the next message, and with the end-of-text token after the last one.
"""
import gzip, json, os, re, tempfile
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

TEXTS = ["the cat sat on the mat and the dog sat on the log", "a function returns a value, and a value is a number or a text",
         "Grüße aus Köln, 12 Uhr 30; wie geht es dir? Gut, danke!", "if x > 0 { return x * 2 } else { return -x }\n",
         "weather in the city today is sunny and warm", "What is 12 + 34? It is 46.\n\nUser: Hi\nAssistant: Hello"] * 20


def bytelevel(specials, digits=r"\p{N}{1,3}"):
    t = Tokenizer(models.BPE())
    words = r"(?i:'s|'t|'re)|[^\r\n\p{L}\p{N}]?\p{L}+|" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    from tokenizers import Regex
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(words), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.normalizer = normalizers.NFC()
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=380, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    for s in specials:
        s = s if isinstance(s, AddedToken) else AddedToken(s, special=True, normalized=False)
        (t.add_special_tokens if s.special else t.add_tokens)([s])
    return t


def spaced(specials, how):
    """A tokenizer of Llama 2's kind: with a normalizer that puts a space before every text, or Metaspace with a scheme."""
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    if how == "prepend":
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        t.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme=how, split=False)
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    first = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    words = [w for text in TEXTS for w in re.findall(r" ?[^ ]+", text)]
    t.train_from_iterator(words, trainers.BpeTrainer(vocab_size=len(first) + 220, special_tokens=first, show_progress=False))
    d = json.loads(t.to_str())
    d["added_tokens"] = [a for a in d["added_tokens"] if a["id"] < 3]
    t = Tokenizer.from_str(json.dumps(d))
    t.add_special_tokens([s if isinstance(s, AddedToken) else AddedToken(s, special=True, normalized=False) for s in specials])
    return t


LLAMA2 = ("{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% set sys = '<<SYS>>\\n' + messages[0].content + '\\n<</SYS>>\\n\\n' %}{% else %}{% set rest = messages %}{% set sys = '' %}{% endif %}"
          "{% for m in rest %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles alternate') }}{% endif %}"
          "{% if m.role == 'user' %}{{ bos_token + '[INST] ' + (sys if loop.first else '') + m.content.strip() + ' [/INST]' }}{% else %}G({{ ' ' + m.content.strip() + ' ' + eos_token }})G{% endif %}{% endfor %}")
GPT_OSS = ("{{ '<|start|>system<|message|>Reasoning: ' + (reasoning_effort or 'medium') + '<|end|>' }}"
           "{% if messages[0].role in ['developer', 'system'] %}{% set rest = messages[1:] %}{{ '<|start|>developer<|message|># Instructions\\n\\n' + messages[0].content + '<|end|>' }}{% else %}{% set rest = messages %}{% endif %}"
           "{% set last = namespace(name=none) %}{% for m in rest %}{% if m.role == 'assistant' %}"
           "{% if 'tool_calls' in m %}{% set later = namespace(answer=false) %}{% for f in rest[loop.index:] %}{% if f.role == 'assistant' and 'tool_calls' not in f %}{% set later.answer = true %}{% endif %}{% endfor %}"
           "{% set c = m.tool_calls[0].function %}{{ '<|start|>assistant' }}G({% if m.thinking and not later.answer %}{{ '<|channel|>analysis<|message|>' + m.thinking + '<|end|><|start|>assistant' }}{% endif %}"
           "{{ ' to=functions.' + c.name + '<|channel|>commentary json<|message|>' + c.arguments|tojson + '<|call|>' }})G{% set last.name = c.name %}"
           "{% elif loop.last and not add_generation_prompt %}{{ '<|start|>assistant' }}G({% if m.thinking %}{{ '<|channel|>analysis<|message|>' + m.thinking + '<|end|><|start|>assistant' }}{% endif %}{{ '<|channel|>final<|message|>' + m.content + '<|return|>' }})G"
           "{% else %}{{ '<|start|>assistant' }}G({{ '<|channel|>final<|message|>' + m.content + '<|end|>' }})G{% endif %}"
           "{% elif m.role == 'tool' %}{{ '<|start|>functions.' + last.name + ' to=assistant<|channel|>commentary<|message|>' + m.content|tojson + '<|end|>' }}"
           "{% else %}{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}")
QWEN3 = ("{% if tools %}{{ '<|im_start|>system\\n# Tools\\n' }}{% for t in tools %}{{ t|tojson + '\\n' }}{% endfor %}{{ '<|im_end|>\\n' }}{% elif messages[0].role == 'system' %}{{ '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{% endif %}"
         "{% set ns = namespace(last=messages|length - 1, open=true) %}{% for m in messages[::-1] %}{% if ns.open and m.role == 'user' and m.content is string and not m.content.startswith('<tool_response>') %}{% set ns.open = false %}{% set ns.last = messages|length - 1 - loop.index0 %}{% endif %}{% endfor %}"
         "{% for m in messages %}{% set content = m.content if m.content is string else '' %}{% if m.role == 'user' or m.role == 'system' and not loop.first %}{{ '<|im_start|>' + m.role + '\\n' + content + '<|im_end|>\\n' }}"
         "{% elif m.role == 'assistant' %}{% set why = '' %}{% if m.reasoning_content is string %}{% set why = m.reasoning_content %}{% elif '</think>' in content %}{% set why = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}{% set content = content.split('</think>')[-1].lstrip('\\n') %}{% endif %}"
         "{{ '<|im_start|>assistant\\n' }}G({% if loop.index0 > ns.last and (loop.last or why) %}{{ '<think>\\n' + why.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}{% else %}{{ content }}{% endif %}"
         "{% for c in m.tool_calls or [] %}{% if content or not loop.first %}{{ '\\n' }}{% endif %}{{ '<tool_call>\\n{\"name\": \"' + c.function.name + '\", \"arguments\": ' }}{% if c.function.arguments is string %}{{ c.function.arguments }}{% else %}{{ c.function.arguments|tojson }}{% endif %}{{ '}\\n</tool_call>' }}{% endfor %}{{ '<|im_end|>' }})G{{ '\\n' }}"
         "{% elif m.role == 'tool' %}{% if loop.first or loop.previtem.role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}{{ '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}{% if loop.last or loop.nextitem.role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}{% endif %}{% endfor %}"
         "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% if enable_thinking is defined and not enable_thinking %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}")
R1 = ("{% set ns = namespace(tool=false, sys='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.sys = m.content %}{% endif %}{% endfor %}{{ bos_token + ns.sys }}{% for m in messages %}"
      "{% if m.role == 'user' %}{% set ns.tool = false %}{{ '<|User|>' + m.content }}{% elif m.role == 'assistant' and m.tool_calls %}{{ '<|Assistant|>' }}G({{ '<|calls|>' }}{% for c in m.tool_calls %}{{ '<|call|>' + c.type + '<|sep|>' + c.function.name + '\\n```json\\n' + c.function.arguments + '\\n```<|/call|>' }}{% endfor %}{{ '<|/calls|>' + eos_token }})G"
      "{% elif m.role == 'assistant' %}{% set content = m.content.split('</think>')[-1] if '</think>' in m.content else m.content %}{% if ns.tool %}{{ '<|/outputs|>' }}{% else %}{{ '<|Assistant|>' }}{% endif %}G({{ content + eos_token }})G{% set ns.tool = false %}"
      "{% elif m.role == 'tool' %}{% if not ns.tool %}{{ '<|outputs|>' }}{% endif %}{% set ns.tool = true %}{{ '<|output|>' + m.content + '<|/output|>' }}{% endif %}{% endfor %}{% if ns.tool %}{{ '<|/outputs|>' }}{% elif add_generation_prompt %}{{ '<|Assistant|><think>\\n' }}{% endif %}")
GLM = ("{{ '[gMASK]<sop>' }}{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}"
       "{% if m.role == 'assistant' %}{% set why = m.reasoning_content or '' %}{{ '<|assistant|>' }}G({{ '\\n<think>' + (why.strip() if loop.index0 > ns.last else '') + '</think>' }}{% if m.content and m.content.strip() %}{{ '\\n' + m.content.strip() }}{% endif %}"
       "{% for c in m.tool_calls or [] %}{{ '\\n<tool_call>' + c.function.name + '\\n' }}{% for k, v in c.function.arguments.items() %}{{ '<arg_key>' + k + '</arg_key>\\n<arg_value>' + (v if v is string else v|tojson) + '</arg_value>\\n' }}{% endfor %}{{ '</tool_call>' }}{% endfor %})G"
       "{% elif m.role == 'tool' %}{% if loop.first or loop.previtem.role != 'tool' %}{{ '<|observation|>' }}{% endif %}{{ '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}{% else %}{{ '<|' + m.role + '|>\\n' + m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")
LLAMA3 = ("{{ bos_token }}{% if messages[0].role == 'system' %}{% set sys = messages[0].content|trim %}{% set rest = messages[1:] %}{% else %}{% set sys = '' %}{% set rest = messages %}{% endif %}"
          "{{ '<|start_header_id|>system<|end_header_id|>\\n\\nCutting Knowledge Date: December 2023\\n\\n' + sys + '<|eot_id|>' }}{% for m in rest %}"
          "{% if m.tool_calls %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}G({{ '{\"name\": \"' + m.tool_calls[0].function.name + '\", \"parameters\": ' + m.tool_calls[0].function.arguments|tojson + '}<|eot_id|>' }})G"
          "{% elif m.role == 'tool' %}{{ '<|start_header_id|>ipython<|end_header_id|>\\n\\n' + (m.content|tojson if m.content is mapping else m.content) + '<|eot_id|>' }}"
          "{% elif m.role == 'assistant' %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}G({{ m.content|trim + '<|eot_id|>' }})G{% else %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content|trim + '<|eot_id|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}")
MISTRAL = ("{% if messages[0].role == 'system' %}{% set sys = messages[0].content %}{% set rest = messages[1:] %}{% else %}{% set sys = '' %}{% set rest = messages %}{% endif %}{{ bos_token }}{% for m in rest %}"
           "{% if m.role == 'user' %}{{ '[INST] ' }}{% if loop.last and sys %}{{ sys + '\\n\\n' }}{% endif %}{{ m.content + '[/INST]' }}{% elif m.tool_calls %}G({{ '[TOOL_CALLS] [' }}{% for c in m.tool_calls %}{{ '{\"name\": \"' + c.function.name + '\", \"arguments\": ' + c.function.arguments|tojson + ', \"id\": \"' + c.id + '\"}' }}{% if not loop.last %}{{ ', ' }}{% endif %}{% endfor %}{{ ']' + eos_token }})G"
           "{% elif m.role == 'tool' %}{{ '[TOOL_RESULTS] {\"content\": ' + m.content + '}[/TOOL_RESULTS]' }}{% else %}G({{ ' ' + m.content|trim + eos_token }})G{% endif %}{% endfor %}")
GEMMA = ("{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('no role system') }}{% endif %}{% for m in messages %}{% if m.role == 'assistant' %}{{ '<start_of_turn>model\\n' }}G({{ m.content|trim + '<end_of_turn>' }})G{{ '\\n' }}{% else %}{{ '<start_of_turn>' + m.role + '\\n' + m.content|trim + '<end_of_turn>\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}")
PHI = ("{% for m in messages %}{% if m.role == 'assistant' %}{{ '<|assistant|>\\n' }}G({{ m.content + '<|end|>' }})G{{ '\\n' }}{% else %}{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}G({{ eos_token }})G{% endif %}")
OLMOE = ("{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}{{ '<|assistant|>\\n' }}G({{ m.content + eos_token }})G{% if not loop.last %}{{ '\\n' }}{% endif %}{% else %}{{ '<|' + m.role + '|>\\n' + m.content + '\\n' }}{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}{% endfor %}")
CHATML = ("{% if messages[0].role != 'system' %}{{ '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}{% endif %}{% for m in messages %}{% if m.role == 'assistant' %}{{ '<|im_start|>assistant\\n' }}G({{ m.content or '' }}{% for c in m.tool_calls or [] %}{{ '\\n<tool_call>\\n' + {'name': c.function.name, 'arguments': c.function.arguments}|tojson + '\\n</tool_call>' }}{% endfor %}{{ '<|im_end|>' }})G{{ '\\n' }}"
          "{% else %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
# Without special tokens at all: a token of the text may begin before an answer and end in it.
BARE = "{% for m in messages %}{% if m.role == 'assistant' %}{{ 'Assistant:' }}G({{ ' ' + m.content + '\\n\\n' }})G{% else %}{{ 'User: ' + m.content + '\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"

plain = lambda *all: [AddedToken(s, special=False, normalized=False) for s in all]
IM = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *plain("<tool_call>", "</tool_call>", "<think>", "</think>")]
STYLES = {  # tokenizer, template, bos, eos, what of the conversations it takes
    "qwen3": (bytelevel(IM, r"\p{N}"), QWEN3, None, "<|im_end|>", "system calls"),
    "chatml": (bytelevel(IM, r"\p{N}"), CHATML, None, "<|im_end|>", "system calls"),
    "gpt-oss": (bytelevel(["<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|return|>", "<|call|>"]), GPT_OSS, None, "<|return|>", "system calls"),
    "deepseek-r1": (bytelevel(["<|begin|>", "<|eos|>", *plain("<|User|>", "<|Assistant|>", "<|calls|>", "<|/calls|>", "<|call|>", "<|/call|>", "<|sep|>", "<|outputs|>", "<|/outputs|>", "<|output|>", "<|/output|>", "<think>", "</think>")]), R1, "<|begin|>", "<|eos|>", "system calls text"),
    "glm-4.5": (bytelevel(["<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>", *plain("<think>", "</think>", "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")]), GLM, None, "<|endoftext|>", "system calls next"),
    "llama-3.1": (bytelevel(["<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"]), LLAMA3, "<|begin_of_text|>", "<|eot_id|>", "system calls"),
    "gemma": (spaced(["<start_of_turn>", "<end_of_turn>"], "never"), GEMMA, "<s>", "</s>", ""),
    "phi-3": (spaced(["<|endoftext|>", *[AddedToken(s, special=True, normalized=False, rstrip=True) for s in ["<|user|>", "<|assistant|>", "<|system|>", "<|end|>"]]], "prepend"), PHI, "<s>", "<|endoftext|>", "system"),
    "olmoe": (bytelevel(["<|endoftext|>"]), OLMOE, "<|endoftext|>", "<|endoftext|>", "system"),
    "no tokens": (bytelevel(["<|endoftext|>"]), BARE, None, "<|endoftext|>", "system end"),
    **{"llama-2 " + how: (spaced([], how), LLAMA2, "<s>", "</s>", "system") for how in ("prepend", "first", "always", "never")},
    **{"mistral " + how: (spaced(["[INST]", "[/INST]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"], how), MISTRAL, "<s>", "</s>", "system calls") for how in ("prepend", "first", "always", "never")},
}

U = lambda s: {"role": "user", "content": s}
A = lambda s, **more: {"role": "assistant", "content": s, **more}
S = lambda s: {"role": "system", "content": s}
call = lambda text, **arguments: {"type": "function", "id": "abcDEF123", "function": {"name": "weather", "arguments": json.dumps(arguments, ensure_ascii=False) if text else arguments}}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Weather in a city", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]


def conversations(takes):
    yield {"messages": [U("Hi"), A("Hello")]}
    yield {"messages": [U("the cat"), A("sat on the mat"), U("What is 12 + 34?"), A("46")]}
    yield {"messages": [U("a"), A("<b>bold</b>"), U("b"), A("\n\nlines\n"), U("c"), A(" spaced "), U("d"), A("12345")]}
    yield {"messages": [U("a"), A("Grüße"), U("a"), A("a"), U("Assistant: a\n"), A("🙂"), U("é"), A("é")]}
    yield {"messages": [U("x"), A("one", reasoning_content="because 1"), U("y"), A("two", reasoning_content="because 2")]}
    yield {"messages": [U("x"), A("<think>\nbecause\n</think>\n\none"), U("y"), A("<think>\nwhy\n</think>\n\ntwo")]}
    if "system" in takes:
        yield {"messages": [S("Be brief."), U("Hi"), A("Hello"), U("How are you?"), A("Fine, thanks.")]}
    if "calls" in takes:
        text = "text" in takes
        yield {"messages": [U("weather?"), A("", tool_calls=[call(text, city="Köln", days=2)]), {"role": "tool", "content": "sunny", "tool_call_id": "abcDEF123"}, A("It is sunny."), U("thanks"), A("Gut")], "tools": TOOLS}
        yield {"messages": [U("weather?"), A("", tool_calls=[call(text, city="Köln")], reasoning_content="I look"), {"role": "tool", "content": "warm", "tool_call_id": "abcDEF123"}, A("It is warm.", reasoning_content="done")], "tools": TOOLS}
        yield {"messages": [U("weather?"), A("", tool_calls=[call(text)])]}


def spans(mask):
    out, start = [], None
    for i, m in enumerate([*mask, 0]):
        if m and start is None:
            start = i
        if not m and start is not None:
            out.append([start, i])
            start = None
    return out


out = []
for name, (tok, marked, bos, eos, takes) in STYLES.items():
    template = marked.replace("G(", "").replace(")G", "")
    with tempfile.TemporaryDirectory() as d:
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": eos, "chat_template": template, "clean_up_tokenization_spaces": False}
        if bos:
            config["bos_token"] = bos
        tok.save(os.path.join(d, "tokenizer.json"))
        json.dump(config, open(os.path.join(d, "tokenizer_config.json"), "w"))
        hf = PreTrainedTokenizerFast.from_pretrained(d)
        cases = []
        for c in conversations(takes):
            if "tools" not in marked:
                c.pop("tools", None)  # a line with tools that the template does not read is broken
            want = hf.apply_chat_template(c["messages"], tools=c.get("tools"), return_dict=True)["input_ids"]
            got = hf.apply_chat_template(c["messages"], tools=c.get("tools"), chat_template=marked.replace("G(", "{% generation %}").replace(")G", "{% endgeneration %}"), return_dict=True, return_assistant_tokens_mask=True)
            assert got["input_ids"] == want, name
            # <|assistant|> of Phi-3 takes the white space at the beginning of an answer. It is the prompt's all the same.
            mask = [int(m and i != hf.get_added_vocab().get("<|assistant|>")) for m, i in zip(got["assistant_masks"], want)]
            if "next" in takes:
                mask = [m or i > 0 and mask[i - 1] for i, m in enumerate(mask)]
            if "next" in takes or "end" in takes:
                want, mask = [*want, hf.eos_token_id], [*mask, 1]
            cases.append({"line": c, "ids": want, "learned": spans(mask)})
        # Prompts with completions are encoded as a whole, and end with the end-of-text token.
        for prompt, completion in [("the cat sat on", " the mat"), ("the cat ", "sat"), ("the ca", "t sat"), ("", "Hello"), ("What is 12", "34?"), ("a\n", "\nb"), ("a  ", "  b"), ("The:", "é🙂"), ("1", "2")]:
            e = hf.backend_tokenizer.encode(prompt + completion, add_special_tokens=False)
            cases.append({"line": {"prompt": prompt, "completion": completion}, "ids": [*e.ids, hf.eos_token_id], "learned": spans([int(b > len(prompt) and a < len(prompt + completion)) for a, b in e.offsets] + [1])})
        out.append({"name": name, "tokenizer": json.loads(tok.to_str()), "config": config, "cases": cases})

with gzip.GzipFile(os.path.join(os.path.dirname(os.path.abspath(__file__)), "styles.json.gz"), "wb", mtime=0) as f:
    f.write(json.dumps(out, ensure_ascii=False, separators=(",", ":")).encode())
print(len(out), "styles,", sum(len(s["cases"]) for s in out), "lines")
