"""Trains small SentencePiece models, and tokenizers of kind Unigram, and writes
pieces.zip: the files, and hashes of what the packages sentencepiece and
tokenizers make of the lines of lines.py.

    pip install sentencepiece tokenizers && python make_pieces.py
"""

import base64
import io
import json
import struct
import zipfile

import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2 as pb
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from lines import lines
from make import BLOCK, digest, results


def model(corpus, **kw):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_writer=out, vocab_size=900, hard_vocab_limit=False, num_threads=1, minloglevel=2, character_coverage=0.98, **kw
    )
    return out.getvalue()


def sentencepieces(corpus):
    llama = dict(byte_fallback=True, split_digits=True, remove_extra_whitespaces=False, normalization_rule_name="identity", allow_whitespace_only_pieces=True)
    # The tables of other rules than identity have 240 kB each; one is enough.
    plain = dict(normalization_rule_name="identity")
    yield "bpe", model(corpus, model_type="bpe", **plain)
    yield "bpe-llama", model(corpus, model_type="bpe", **llama)
    yield "bpe-user", model(corpus, model_type="bpe", user_defined_symbols=["<mask>", "user", "é", "  ", "[TOOL]"], **llama)
    yield "unigram", model(corpus, model_type="unigram")
    yield "unigram-bytes", model(corpus, model_type="unigram", **llama)
    yield "unigram-user", model(corpus, model_type="unigram", **plain, user_defined_symbols=["<mask>", "user", "é", "[TOOL]"], pad_id=3)
    yield "unigram-suffix", model(corpus, model_type="unigram", treat_whitespace_as_suffix=True, **plain)
    yield "bpe-bare", model(corpus, model_type="bpe", add_dummy_prefix=False, unk_surface="?", **plain)


def sp_results(data, texts):
    sp = sentencepiece.SentencePieceProcessor(model_proto=data)
    ids = [sp.encode(t) for t in texts]
    pack = lambda x: struct.pack(f"<I{len(x)}i", len(x), *x)
    string = lambda s: struct.pack("<I", len(s.encode())) + s.encode()
    out = {}
    for name, parts in {"ids": map(pack, ids), "text": map(string, map(sp.decode, ids)), "mixed": map(string, (sp.decode(x[::-1]) for x in ids))}.items():
        parts = list(parts)
        out[name] = [digest(parts[i : i + BLOCK]) for i in range(0, len(parts), BLOCK)]
    return out


def unigrams(data, with_bytes):
    def tok(data, bytes):
        m = pb.ModelProto()
        m.ParseFromString(data)
        t = Tokenizer(models.Unigram([(p.piece, p.score) for p in m.pieces], unk_id=0, byte_fallback=bytes))
        t.decoder = decoders.Metaspace()
        return t, m.normalizer_spec.precompiled_charsmap

    t, table = tok(data, False)
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(table), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    t.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)])
    t.add_special_tokens(["<unk>", "<s>", "</s>"])
    yield "t5", t
    t, _ = tok(data, False)
    t.normalizer = normalizers.NFKC()
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    yield "metaspace-first", t
    t, _ = tok(with_bytes, True)
    t.normalizer = normalizers.Replace(" ", "▁")
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    yield "bytes", t


def main():
    texts = [x.decode("utf-8", "replace") for x in lines()]
    corpus = [x.decode("utf-8", "ignore").replace("\n", " ").replace("\0", " ") for x in lines(4000, seed=2)]
    with zipfile.ZipFile("pieces.zip", "w") as z:

        def put(name, data):
            z.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED, 9)

        js = lambda data: json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        kept = {}
        for name, data in sentencepieces(corpus):
            kept[name] = data
            put(f"{name}/tokenizer.model", data)
            put(f"{name}/results.json", js(sp_results(data, texts)))
            print(name, len(data), flush=True)
        for name, tok in unigrams(kept["unigram"], kept["unigram-bytes"]):
            put(f"{name}/tokenizer.json", js(json.loads(tok.to_str())))
            put(f"{name}/results.json", js(results(tok, texts)))
            print(name, flush=True)
        put("version.json", js({"sentencepiece": sentencepiece.__version__, "tokenizers": tokenizers.__version__}))


if __name__ == "__main__":
    main()
