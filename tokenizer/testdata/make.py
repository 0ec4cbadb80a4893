"""Trains a small tokenizer for each kind of published tokenizer.json and writes
tokenizers.zip: the files, and hashes of what the package tokenizers makes of
the lines of lines.py.

    pip install tokenizers && python make.py

No published vocabulary is used: the tokenizers learn from lines of their own.
"""

import hashlib
import json
import struct
import zipfile

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from lines import lines

BLOCK = 100  # lines with one hash

GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
CL100K = r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{SHORT}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{SHORT}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DEEPSEEK3 = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
HAN = "[一-龥぀-ゟ゠-ヿ]+"
BLOOM = r""" ?[^(\s|[.,!?…。，、।۔،])]+"""
CLIP = r"""<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"""
DIGITS3 = r"""\d{1,3}(?=(?:\d{3})*\b)"""
DEEPSEEK_WORDS = r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝ\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212Dℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"
DEEPSEEK_MARKS = r"\s?[!-/:-~！-／：-～‘-‟　-。]+"

BL = pre_tokenizers.ByteLevel
split = lambda p, how="isolated", invert=False: pre_tokenizers.Split(Regex(p), how, invert)
seq = lambda *a: pre_tokenizers.Sequence(list(a))
raw = lambda: BL(add_prefix_space=False, use_regex=False)
CHAT = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
OTHERS = [
    AddedToken("added", normalized=True),
    AddedToken("word", single_word=True, normalized=True),
    AddedToken("Añadido", normalized=True),
]


def train(tok, corpus, size=1000, special=(), alphabet=False, **kw):
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(special), show_progress=False, initial_alphabet=BL.alphabet() if alphabet else [], **kw)
    tok.train_from_iterator(corpus, trainer)
    return tok


def level(pre, corpus, norm=None, post=None, dec=None, special=CHAT, model=None, size=1000):
    """A tokenizer of bytes."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre
    if norm:
        tok.normalizer = norm
    train(tok, corpus, size, special, True)
    tok.decoder = dec or decoders.ByteLevel()
    tok.post_processor = post or processors.ByteLevel(trim_offsets=False)
    tok.add_tokens(OTHERS)
    tok.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True), AddedToken("[TOOL]", rstrip=True, special=True)])
    for key, value in (model or {}).items():
        tok = changed(tok, lambda d: d["model"].__setitem__(key, value))
    return tok


def changed(tok, f):
    d = json.loads(tok.to_str())
    f(d)
    return Tokenizer.from_str(json.dumps(d))


def llama(corpus, norm=None, pre=None, dec=None, fuse=True, size=1000):
    """A tokenizer of characters with bytes for others."""
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=fuse, byte_fallback=True))
    if norm:
        tok.normalizer = norm
    if pre:
        tok.pre_tokenizer = pre
    names = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)]
    train(tok, [x[:60] for x in corpus], size, names, limit_alphabet=300)

    def drop(d):
        d["added_tokens"] = d["added_tokens"][:3]

    tok = changed(tok, drop)
    tok.decoder = dec or decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
    return tok


def kinds(corpus):
    digits, punct = pre_tokenizers.Digits, pre_tokenizers.Punctuation
    eot = lambda name, i: processors.TemplateProcessing(single=f"{name} $A {name}", pair=f"{name} $A $B", special_tokens=[(name, i)])
    yield "gpt2", level(BL(add_prefix_space=False), corpus)
    yield "gpt2-prefix", level(BL(add_prefix_space=True), corpus, post=processors.RobertaProcessing(("<|im_end|>", 2), ("<|im_start|>", 1)))
    yield "neox", level(BL(add_prefix_space=False), corpus, norm=normalizers.NFC())
    yield "llama3", level(seq(split(LLAMA3), raw()), corpus, model={"ignore_merges": True}, post=processors.Sequence([processors.ByteLevel(trim_offsets=False), eot("<|endoftext|>", 0)]))
    yield "qwen2", level(seq(split(QWEN2), raw()), corpus, norm=normalizers.NFC())
    yield "qwen35", level(seq(split(QWEN35), raw()), corpus, norm=normalizers.NFC())
    yield "cl100k", level(seq(split(CL100K), raw()), corpus)
    yield "cl100k-removed", level(seq(split(CL100K, "removed", True), raw()), corpus)
    yield "o200k", level(seq(split(O200K), raw()), corpus, model={"ignore_merges": True})
    yield "tekken", level(seq(split(TEKKEN), raw()), corpus)
    yield "deepseek-llm", level(seq(split("[\r\n]"), split(DEEPSEEK_WORDS), split(DEEPSEEK_MARKS), split(r"\s+$"), split("[一-龥ࠀ-一가-퟿]+"), digits(True), raw()), corpus, norm=normalizers.Sequence([]))
    yield "deepseek3", level(seq(split(r"\p{N}{1,3}"), split(HAN), split(DEEPSEEK3), raw()), corpus)
    yield "bloom", level(seq(split(BLOOM), raw()), corpus)
    yield "falcon", level(seq(punct("contiguous"), BL(add_prefix_space=False), digits(False), split("[0-9][0-9][0-9]")), corpus)
    yield "starcoder", level(seq(digits(True), BL(add_prefix_space=False)), corpus)
    yield "digits3", level(seq(split(DIGITS3), BL(add_prefix_space=False)), corpus)
    yield "nfkc", level(BL(add_prefix_space=False), corpus, norm=normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(), normalizers.Lowercase()]))
    yield "merged-previous", level(seq(split(r"\s+", "merged_with_previous"), raw()), corpus)
    yield "merged-next", level(seq(split(r"\s", "merged_with_next"), raw()), corpus)
    yield "contiguous", level(seq(split(r"[aeiou ]", "contiguous", True), raw()), corpus)
    mark = normalizers.Replace(" ", "▁")
    yield "llama2", llama(corpus, normalizers.Sequence([normalizers.Prepend("▁"), mark]))
    yield "mistral", llama(corpus, pre=pre_tokenizers.Metaspace(prepend_scheme="first", split=False))
    yield "metaspace", llama(corpus, pre=pre_tokenizers.Metaspace(prepend_scheme="always"), dec=decoders.Metaspace(prepend_scheme="always"), fuse=False)
    yield "gemma", llama(corpus, mark, pre=pre_tokenizers.Split(" ", "merged_with_previous"), dec=decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]))

    def unknown(fuse):
        tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=fuse))
        tok.pre_tokenizer = pre_tokenizers.Whitespace()
        return train(tok, corpus, 600, ["<unk>"], limit_alphabet=60)

    yield "unknown", unknown(False)
    yield "unknown-fused", unknown(True)
    tok = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    tok.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    tok.pre_tokenizer = seq(split(CLIP, "removed", True), BL(add_prefix_space=False))
    train(tok, corpus, 1000, CHAT, True, end_of_word_suffix="</w>")
    tok.decoder = decoders.BPEDecoder("</w>")
    yield "clip", tok
    tok = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"))
    tok.normalizer = normalizers.BertNormalizer()
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    yield "bert", train(tok, corpus, 800, ["<unk>"], continuing_subword_prefix="##", limit_alphabet=200)
    tok = Tokenizer(models.BPE(unk_token="<unk>"))
    tok.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Replace(Regex(" {2,}"), " ")])
    tok.pre_tokenizer = seq(pre_tokenizers.WhitespaceSplit(), pre_tokenizers.CharDelimiterSplit("-"))
    yield "accents", train(tok, corpus, 600, ["<unk>"])


def digest(parts):
    return hashlib.sha256(b"".join(parts)).hexdigest()[:12]


def results(tok, texts):
    """The ids and texts of all lines: hashes by block."""
    ids = [e.ids for e in tok.encode_batch(texts)]
    bare = [e.ids for e in tok.encode_batch(texts, add_special_tokens=False)]
    tok.encode_special_tokens = True
    plain = [e.ids for e in tok.encode_batch(texts, add_special_tokens=False)]
    tok.encode_special_tokens = False
    pack = lambda x: struct.pack(f"<I{len(x)}i", len(x), *x)
    string = lambda s: struct.pack("<I", len(s.encode())) + s.encode()
    out = {}
    for name, parts in {
        "ids": map(pack, ids),
        "bare": map(pack, bare),
        "plain": map(pack, plain),
        "text": map(string, tok.decode_batch(ids, skip_special_tokens=True)),
        "all": map(string, tok.decode_batch(plain, skip_special_tokens=False)),
        # Ids in another order: bytes that are no characters, and pieces where no piece was.
        "mixed": map(string, tok.decode_batch([x[::-1] for x in plain], skip_special_tokens=False)),
    }.items():
        parts = list(parts)
        out[name] = [digest(parts[i : i + BLOCK]) for i in range(0, len(parts), BLOCK)]
    return out


def main():
    texts = [x.decode("utf-8", "replace") for x in lines()]
    corpus = [x.decode("utf-8", "ignore") for x in lines(4000, seed=2)]
    with zipfile.ZipFile("tokenizers.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:

        def put(name, data):
            z.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), json.dumps(data, ensure_ascii=False, separators=(",", ":")), zipfile.ZIP_DEFLATED, 9)

        for name, tok in kinds(corpus):
            put(f"{name}/tokenizer.json", json.loads(tok.to_str()))
            put(f"{name}/results.json", results(tok, texts))
            print(name, tok.get_vocab_size())
        put("version.json", {"tokenizers": tokenizers.__version__})


if __name__ == "__main__":
    main()
