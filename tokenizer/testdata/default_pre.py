"""Writes default_pre.json: a vocabulary of byte pairs, and the tokens that llama.cpp makes of texts with it where the GGUF file does not
say which pattern cuts words.

    pip install tokenizers gguf llama-cpp-python && python default_pre.py
"""
import json
import os
import tempfile

import gguf
import llama_cpp
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

corpus = ["the cat sat on the mat and the dog's log, 12345 times; we'll see!", "a function(x) { return x*2 + y <= 7 } // $5.00 ^~|", "Grüße aus Köln, 12 Uhr 30; ¿qué?", "if x > 0:\n    y = 1\n\tz", "这是一个测试，语言模型。100000"] * 10
texts = ["the cat's log, 12345 times; we'll see!!", "a $5.00 + <b> ^~| = 7", "if x > 0:\n    y = 1\n\tz  ", "Grüße  aus   Köln, 12 Uhr", "这是一个测试，语言模型。100000", "  leading", "x\n\n\ny ...  (ok)", "I'M don'T 1 22 333 4444 55555", "½ ² ③ Ⅳ", "--->>>~~~", "tab\tand\u3000space"]
t = Tokenizer(models.BPE())
t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
model = json.loads(t.to_str())["model"]
tokens, merges = sorted(model["vocab"], key=model["vocab"].get), [" ".join(m) for m in model["merges"]]
with tempfile.TemporaryDirectory() as d:
    w = gguf.GGUFWriter(os.path.join(d, "v.gguf"), "llama")
    w.add_block_count(1), w.add_context_length(64), w.add_embedding_length(8), w.add_head_count(1), w.add_feed_forward_length(8), w.add_layer_norm_rms_eps(1e-5)
    w.add_tokenizer_model("gpt2"), w.add_token_list(tokens), w.add_token_merges(merges), w.add_token_types([1] * len(tokens))
    w.add_bos_token_id(0), w.add_eos_token_id(0)
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
    l = llama_cpp.Llama(os.path.join(d, "v.gguf"), vocab_only=True, verbose=False)
    ids = [[x, l.tokenize(x.encode(), add_bos=False, special=False)] for x in texts]
json.dump(dict(tokens=tokens, merges=merges, texts=ids), open("default_pre.json", "w"), ensure_ascii=False, separators=(",", ":"))
