"""Writes default_pre.json: a vocabulary of byte pairs, the tokens that llama.cpp makes of texts with it if the GGUF file does not name the
pattern that cuts words, and the names of patterns with which llama.cpp puts the BOS token before a text if the file does not say so.

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
names = ["default", "gpt-2", "mpt", "jais", "olmo", "llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano", "dbrx", "smaug-bpe", "glm4", "chatglm-bpe",
         "qwen2", "deepseek-r1-qwen", "hunyuan", "solar-open", "qwen35", "gpt-4o", "llama4", "minimax-m2", "tekken", "deepseek-llm", "deepseek-coder", "deepseek-v3", "hunyuan-dense", "joyai-llm",
         "bailingmoe", "bailingmoe2", "llada-moe", "starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"]


def load(d, pre):
    w = gguf.GGUFWriter(os.path.join(d, "v.gguf"), "llama")
    w.add_block_count(1), w.add_context_length(64), w.add_embedding_length(8), w.add_head_count(1), w.add_feed_forward_length(8), w.add_layer_norm_rms_eps(1e-5)
    w.add_tokenizer_model("gpt2"), w.add_token_list(tokens), w.add_token_merges(merges), w.add_token_types([1] * len(tokens))
    w.add_bos_token_id(0), w.add_eos_token_id(0)
    if pre:
        w.add_tokenizer_pre(pre)
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
    return llama_cpp.Llama(os.path.join(d, "v.gguf"), vocab_only=True, verbose=False)


with tempfile.TemporaryDirectory() as d:
    l = load(d, None)
    ids = [[x, l.tokenize(x.encode(), add_bos=False, special=False)] for x in texts]
    begins = {n: load(d, n).tokenize(b"a", add_bos=True)[0] == 0 for n in names}
json.dump(dict(tokens=tokens, merges=merges, texts=ids, begins=begins), open("default_pre.json", "w"), ensure_ascii=False, separators=(",", ":"))
