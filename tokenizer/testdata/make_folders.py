"""Writes folders.json.gz: folders with tokens in tokenizer_config.json, special_tokens_map.json and added_tokens.json, and
what AutoTokenizer of transformers makes of some texts with each of them.

    pip install transformers tokenizers sentencepiece protobuf && python make_folders.py
"""

import base64
import gzip
import io
import json
import os
import random
import tempfile

import sentencepiece
import transformers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

CORPUS = ["the cat sat on the mat and the dog sat on the log", "a function returns a value, and a value is a number or a text", "if x > 0 { return x * 2 }"] * 20
TOKENS = ["<|im_start|>", "<|im_end|>", "<pad>", "<x>", "[SEP]", "[CLS]", "<mask>", "NEW tok", "é<", "the", "<|end|>", "<tool>", "<unk>", "</s>", "<s>"]


def pieces(**kw):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=out, vocab_size=330, normalization_rule_name="identity", minloglevel=2, hard_vocab_limit=False, byte_fallback=True, remove_extra_whitespaces=False, **kw
    )
    return out.getvalue()


def spaces(model):
    """The pieces of model and runs of spaces before all others, with the lowest score, as Mistral publishes them."""
    m = sentencepiece_model_pb2.ModelProto()
    m.ParseFromString(model)
    rest = list(m.pieces[259:])
    del m.pieces[259:]
    for n in (2, 4, 3):
        m.pieces.add(piece="▁" * n, score=-1e9)
    for p in rest:
        m.pieces.add(piece=p.piece, score=p.score if len(p.piece) > 1 else -1e9, type=p.type)
    return m.SerializeToString()


def level():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_special_tokens([AddedToken(x, special=True, normalized=False) for x in ("<|end|>", "<|start|>")])
    t.add_tokens([AddedToken("<tool>", special=False, normalized=False)])
    return t.to_str()


def llama():
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=len(special) + 100, special_tokens=special, show_progress=False))
    d = json.loads(t.to_str())
    d["added_tokens"] = [a for a in d["added_tokens"] if a["id"] < 3]
    return json.dumps(d, ensure_ascii=False)


def token(content, special=True, **kw):
    return dict(dict(content=content, lstrip=False, rstrip=False, normalized=False, single_word=False, special=special), **kw)


def named(content, **kw):
    return dict(token(content, **kw), __type="AddedToken")


def folders(size):
    """Name, base, and files by name."""
    spm = dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>", add_bos_token=True)
    for base in ("level", "llama"):
        fast = dict(tokenizer_class="PreTrainedTokenizerFast")
        n = size[base]
        yield base + "-pad", base, {"tokenizer_config.json": dict(fast, pad_token="<pad>")}
        yield base + "-all-names", base, {"tokenizer_config.json": dict(fast, bos_token="<|im_start|>", eos_token="<|im_end|>", pad_token="<pad>", sep_token="[SEP]", cls_token="[CLS]", mask_token=named("<mask>", lstrip=True), unk_token="<x>")}
        yield base + "-known", base, {"tokenizer_config.json": dict(fast, eos_token="the", pad_token="<tool>", sep_token="</s>")}
        yield base + "-extra-list", base, {"tokenizer_config.json": dict(fast, extra_special_tokens=["<x>", named("NEW tok", rstrip=True)], additional_special_tokens=["<mask>"])}
        yield base + "-extra-object", base, {"tokenizer_config.json": dict(fast, extra_special_tokens={"image_token": "<x>", "b": "[CLS]"}, pad_token="<pad>")}
        yield base + "-additional", base, {"tokenizer_config.json": dict(fast, additional_special_tokens=["<|im_start|>", "<|im_end|>"])}
        yield base + "-model-specific", base, {"tokenizer_config.json": dict(fast, image_token="<x>", eos_token="<|end|>")}
        yield base + "-decoder", base, {"tokenizer_config.json": dict(fast, added_tokens_decoder={str(n): token("<|im_start|>"), str(n + 1): token("<x>", False, single_word=True), str(n + 2): token("é<", False, lstrip=True)}, eos_token="<|im_end|>")}
        yield base + "-decoder-gap", base, {"tokenizer_config.json": dict(fast, added_tokens_decoder={str(n + 7): token("<|im_start|>"), str(n + 3): token("<|im_end|>")})}
        yield base + "-decoder-changes", base, {"tokenizer_config.json": dict(fast, added_tokens_decoder={str(n): token("<tool>", rstrip=True), str(n + 1): token("<|end|>", False)})}
        yield base + "-map", base, {"tokenizer_config.json": fast, "special_tokens_map.json": dict(eos_token="<|im_end|>", pad_token={k: v for k, v in token("<pad>").items() if k != "special"}, additional_special_tokens=["<x>"])}
        yield base + "-map-beside-decoder", base, {"tokenizer_config.json": dict(fast, added_tokens_decoder={str(n): token("<|im_start|>")}), "special_tokens_map.json": dict(eos_token="<|im_end|>")}
        yield base + "-added", base, {"tokenizer_config.json": dict(fast, eos_token="<|im_end|>"), "added_tokens.json": {"<|im_start|>": n, "<|im_end|>": n + 1}}
        yield base + "-added-no-config", base, {"added_tokens.json": {"<x>": n + 1, "<|im_end|>": n}}
    for base in ("bpe", "unigram"):
        n = size[base]
        added = {str(n): token("<|im_start|>"), str(n + 1): token("<|im_end|>")}
        for kind in ("llama", "mixtral"):
            for cls in ("LlamaTokenizer", "PreTrainedTokenizerFast")[base == "unigram" :]:
                for legacy in (None, True, False):
                    c = dict(spm, tokenizer_class=cls, added_tokens_decoder=added, eos_token="<|im_end|>")
                    if legacy is not None:
                        c["legacy"] = legacy
                    yield f"{base}-{kind}-{cls}-{legacy}", base, {"tokenizer_config.json": c, "config.json": {"model_type": kind}}
        yield base + "-added", base, {"tokenizer_config.json": dict(spm, tokenizer_class="PreTrainedTokenizerFast"), "added_tokens.json": {"<|im_start|>": n, "<|im_end|>": n + 1}}
        yield base + "-pad", base, {"tokenizer_config.json": dict(spm, tokenizer_class="PreTrainedTokenizerFast", pad_token="<pad>", add_bos_token=False, add_eos_token=True)}
        yield base + "-clean-up", base, {"tokenizer_config.json": dict(spm, tokenizer_class="PreTrainedTokenizerFast", clean_up_tokenization_spaces=True)}
        yield base + "-clean-up-forced", base, {"tokenizer_config.json": dict(spm, tokenizer_class="PreTrainedTokenizerFast", clean_up_tokenization_spaces=True, clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output=True)}
        yield base + "-renamed", base, {"tokenizer_config.json": dict(spm, tokenizer_class="PreTrainedTokenizerFast", added_tokens_decoder={str(n - 1): token("<|im_start|>"), "1": token("<s>")})}
    for kind in ("llama", "mixtral"):
        for cls in ("LlamaTokenizer", "LlamaTokenizerFast", "PreTrainedTokenizerFast"):
            for legacy in (None, True, False):
                yield f"bpe-spaces-{kind}-{cls}-{legacy}", "bpe-spaces", {"tokenizer_config.json": dict(spm, tokenizer_class=cls) | ({} if legacy is None else dict(legacy=legacy)), "config.json": {"model_type": kind}}
    # Classes that build their own pre-tokenizer, and those that do not.
    for cls in ("GPT2Tokenizer", "CodeGenTokenizerFast", "GPTNeoXTokenizerFast", "CohereTokenizerFast", "Qwen2TokenizerFast", "Qwen3_5Tokenizer", "LlamaTokenizerFast", "PreTrainedTokenizerFast"):
        c = dict(tokenizer_class=cls)
        if "Cohere" in cls:
            c.update({k + "_token": None for k in ("unk", "bos", "eos", "pad", "cls", "sep", "mask")})
        yield f"level-spaced-{cls}", "level-spaced", {"tokenizer_config.json": c}
        yield f"level-spaced-{cls}-prefix", "level-spaced", {"tokenizer_config.json": dict(c, add_prefix_space=True)}
        yield f"level-spaced-{cls}-no-prefix", "level-spaced", {"tokenizer_config.json": dict(c, add_prefix_space=False, eos_token="<|end|>")}
    for cls in ("Qwen2Tokenizer", "PreTrainedTokenizerFast"):
        yield f"level-{cls}-decoder", "level", {"tokenizer_config.json": dict(tokenizer_class=cls, eos_token="<|end|>", unk_token=None, pad_token=None, added_tokens_decoder={"301": token("<|im_start|>"), "300": token("<|end|>")})}
    for kind in ("qwen3_moe", "olmoe", "mixtral", "glm4_moe", "deepseek_v3"):
        yield "level-spaced-" + kind, "level-spaced", {"config.json": {"model_type": kind}}
        yield f"level-spaced-{kind}-GPT2Tokenizer", "level-spaced", {"config.json": {"model_type": kind, "tokenizer_class": "GPT2Tokenizer"}, "tokenizer_config.json": {}}
    for prefix in (None, True, False):
        for legacy in (None, True, False):
            yield f"llama-LlamaTokenizer-{prefix}-{legacy}", "llama", {"tokenizer_config.json": dict(tokenizer_class="LlamaTokenizer", add_prefix_space=prefix, legacy=legacy)}
    yield "llama-LlamaTokenizer-mixtral", "llama", {"tokenizer_config.json": dict(tokenizer_class="LlamaTokenizer"), "config.json": {"model_type": "mixtral"}}
    for prefix in (True, False):
        yield f"llama-GemmaTokenizer-{prefix}", "llama", {"tokenizer_config.json": dict(tokenizer_class="GemmaTokenizer", add_prefix_space=prefix, bos_token="<s>", eos_token="</s>", pad_token=None, mask_token=None)}
    # The pad_token of padding, and ids of added tokens that do not follow each other.
    for base in ("level-padding", "level-padding-known", "level-holes"):
        for cls in ("PreTrainedTokenizerFast", "Qwen2Tokenizer", "GPT2Tokenizer"):
            yield f"{base}-{cls}", base, {"tokenizer_config.json": dict(tokenizer_class=cls)}
        yield base + "-null", base, {"tokenizer_config.json": dict(tokenizer_class="PreTrainedTokenizerFast", pad_token=None)}


def edited(text, **fields):
    return json.dumps(dict(json.loads(text), **fields), ensure_ascii=False)


def main():
    bases = {"level": level(), "llama": llama(), "bpe": pieces(model_type="bpe"), "unigram": pieces(model_type="unigram")}
    bases["bpe-spaces"] = spaces(bases["bpe"])
    size = {"level": 303, "llama": 359}
    added = json.loads(bases["level"])["added_tokens"] + [dict(token(x), id=303 + i) for i, x in enumerate(("<|endoftext|>", "<|padding|>"))]
    pad = dict(strategy={"Fixed": 40}, direction="Right", pad_to_multiple_of=None, pad_id=9, pad_type_id=0)
    bases["level-spaced"] = edited(bases["level"], added_tokens=added, pre_tokenizer=dict(type="ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True), truncation=dict(direction="Right", max_length=2, strategy="LongestFirst", stride=0))
    bases["level-padding"] = edited(bases["level"], added_tokens=added, padding=dict(pad, pad_token="<pad>"))
    bases["level-padding-known"] = edited(bases["level"], added_tokens=added, padding=dict(pad, pad_token="<tool>"))
    bases["level-holes"] = edited(bases["level"], added_tokens=[dict(token("<x>"), id=310)] + added + [dict(token("the", False), id=307), dict(token("[SEP]"), id=308)])
    for name in ("bpe", "unigram"):
        size[name] = sentencepiece.SentencePieceProcessor(model_proto=bases[name]).get_piece_size()
    out = []
    for name, base, files in folders(size):
        r = random.Random(name)
        with tempfile.TemporaryDirectory() as d:
            data = bases[base]
            if isinstance(data, str):
                open(os.path.join(d, "tokenizer.json"), "w").write(data)
            else:
                open(os.path.join(d, "tokenizer.model"), "wb").write(data)
            files.setdefault("config.json", {"model_type": "llama"})
            for path, value in files.items():
                json.dump(value, open(os.path.join(d, path), "w"))
            t = transformers.AutoTokenizer.from_pretrained(d)
            cases = []
            for _ in range(30):
                text = "".join(r.choice(TOKENS + ([" .", "n't", " n't", " ' ", " 's", " ?"] if "clean-up" in name else ["  the", "   ", "    "] if "bpe-spaces" in name else []) + ["the cat", " sat", " ", "  ", "\n", "é", "value", "a", " <", "▁"]) for _ in range(r.randint(1, 9)))
                ids = t(text).input_ids
                cases.append({"text": text, "ids": ids, "decoded": t.decode(ids, skip_special_tokens=True)})
            special = {k: -1 if v is None else v for k, v in (("BOS", t.bos_token_id), ("EOS", t.eos_token_id), ("Pad", t.pad_token_id))}
        out.append({"name": name, "base": base, "files": files, "cases": cases, "special": special})
        print(name, special)
    text = json.dumps({"transformers": transformers.__version__, "bases": {k: base64.b64encode(v.encode() if isinstance(v, str) else v).decode() for k, v in bases.items()}, "folders": out}, ensure_ascii=False)
    with open("folders.json.gz", "wb") as f, gzip.GzipFile("", "wb", 9, f, 0) as z:
        z.write(text.encode())


if __name__ == "__main__":
    main()
