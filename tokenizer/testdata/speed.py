"""Measures what BenchmarkEncode and BenchmarkDecode measure with the Python package tokenizers."""

import time
import zipfile

from tokenizers import Tokenizer

from lines import lines

text = "\n".join(x.decode("utf-8", "replace") for x in lines())
size = len(text.encode())
archive = zipfile.ZipFile("tokenizers.zip")
for name in ["gpt2", "llama3", "o200k", "deepseek3", "llama2", "mistral"]:
    tok = Tokenizer.from_str(archive.read(f"{name}/tokenizer.json").decode())
    ids = tok.encode(text).ids
    for what, f in [("encode", lambda: tok.encode(text)), ("decode", lambda: tok.decode(ids))]:
        best = float("inf")
        for _ in range(5):
            start = time.process_time()
            f()
            best = min(best, time.process_time() - start)
        print(f"{name} {what} {size / best / 1e6:.2f} MB/s")
