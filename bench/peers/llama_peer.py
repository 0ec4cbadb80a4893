"""llama.cpp, as the packages llama-cpp-python and ik-llama-cpp-python have it, with whole models in GGUF files."""

import ctypes
import http.client
import importlib
import json
import os
import socket
import subprocess
import sys
import threading
import time

import numpy as np

from protocol import serve

THREADS = int(os.environ["BENCH_PEERS_THREADS"])
PACKAGE = os.environ["BENCH_PEERS_LLAMA"]
IK = PACKAGE == "ik_llama_cpp"
ll = importlib.import_module(PACKAGE + "._ctypes_api" if IK else PACKAGE)

# Forms of the weights. Repacking them may choose kernels of AMX, which crash in some virtual machines.
FORMS = [("weights repacked", True), ("weights as in the file", False)]
if os.environ.get("BENCH_PEERS_REPACK") == "0":
    del FORMS[0]


class Model:
    """A model with a context."""

    def __init__(self, file, room, sequences, repack):
        p = ll.llama_model_default_params()
        p.n_gpu_layers = 0
        if IK:
            p.repack_tensors, p.use_mmap, p.n_seq_max, p.n_ubatch = repack, not repack, sequences, 512
        else:
            p.use_extra_bufts = repack
        self.model = ll.llama_model_load_from_file(file.encode(), p)
        if not self.model:
            raise RuntimeError("cannot load " + file)
        c = ll.llama_context_default_params()
        c.n_ctx = room * sequences
        c.n_batch = c.n_ubatch = max(512, sequences)
        c.n_seq_max = sequences
        c.n_threads = c.n_threads_batch = THREADS
        if not IK:
            c.no_perf = True
        self.ctx = ll.llama_init_from_model(self.model, c)
        if not self.ctx:
            raise RuntimeError("no context")
        self.vocab = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(self.model))
        self.batch = ll.llama_batch_init(c.n_batch, 0, 1)

    def clear(self):
        if IK:
            ll.llama_kv_cache_clear(self.ctx)
        else:
            ll.llama_memory_clear(ll.llama_get_memory(self.ctx), False)

    def decode(self, tokens, positions, sequences):
        """Computes tokens; the last one of each sequence has logits."""
        b, n = self.batch, len(tokens)
        b.n_tokens = n
        for i in range(n):
            b.token[i], b.pos[i], b.n_seq_id[i], b.seq_id[i][0] = int(tokens[i]), int(positions[i]), 1, int(sequences[i])
            b.logits[i] = i + 1 == n or sequences[i + 1] != sequences[i]
        if ll.llama_decode(self.ctx, b) != 0:
            raise RuntimeError("llama_decode failed")

    def logits(self, i):
        return np.ctypeslib.as_array(ll.llama_get_logits_ith(self.ctx, i), (self.vocab,))

    def close(self):
        ll.llama_batch_free(self.batch)
        ll.llama_free(self.ctx)
        (ll.llama_free_model if IK else ll.llama_model_free)(self.model)


def checked(m, data):
    """The logarithms of the probabilities of the tokens that gomoe found most likely."""
    prompt = data["prompt"]
    m.clear()
    m.decode(prompt, range(len(prompt)), [0] * len(prompt))
    x = m.logits(-1).astype(np.float64)
    x -= x.max() + np.log(np.exp(x - x.max()).sum())
    return {"logs": x[data["ids"]]}


# The model that is open, so that the memory of one is enough.
current = []


def opened(file, room, sequences, repack):
    while current:
        current.pop().close()
    current.append(Model(file, room, sequences, repack))
    return current[0]


def once(m, data, step):
    """A step whose first results are those that are compared."""
    first = [True]

    def run():
        if first:
            first.clear()
            return checked(m, data)
        return step()

    return run


def variants(data, params, sequences, make):
    """Formulations with weights as they lie in the file and repacked. A formulation that is measured must have its model
    open: it is opened again where another one was in between."""
    for name, repack in FORMS:

        def prepare(repack=repack):
            state = [opened(params["file"], params["room"], sequences, repack)]
            step = [once(state[0], data, make(state[0]))]

            def run():
                if current[0] is not state[0]:
                    state[0] = opened(params["file"], params["room"], sequences, repack)
                    step[0] = make(state[0])
                return step[0]()

            return run

        yield name, prepare


def decode(sequences):
    def workload(data, params, threads):
        rng = np.random.default_rng(1)

        def make(m):
            def step():
                m.clear()
                for at in range(params["tokens"]):
                    m.decode(rng.integers(300, params["vocab"], sequences), [at] * sequences, range(sequences))
                    m.logits(-1)

            return step

        return variants(data, params, sequences, make)

    return workload


def prompt(data, params, threads):
    rng = np.random.default_rng(1)
    n = params["prompt"]

    def make(m):
        def step():
            m.clear()
            m.decode(rng.integers(300, params["vocab"], n), range(n), [0] * n)
            m.logits(-1)

        return step

    return variants(data, params, 1, make)


def opening(data, params, threads):
    for name, repack in FORMS:

        def prepare(repack=repack):
            first = [True]

            def step():
                m = opened(params["file"], params["room"], 1, repack)
                if first:
                    first.clear()
                    return checked(m, data)
                m.decode([300], [0], [0])
                m.logits(-1)

            return step

        yield name, prepare


def resident():
    """Bytes that are resident of this process's memory without files."""
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) << 10
    return 0


server = []


def served(data, params, threads):
    """The package's server, which answers one request after another."""

    def prepare():
        m = opened(params["file"], params["room"], 1, FORMS[0][1])
        want = checked(m, data)
        current.pop().close()
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        server.append(subprocess.Popen(
            [sys.executable, "-m", "llama_cpp.server", "--model", params["file"], "--n_ctx", str(params["room"]), "--n_threads", str(THREADS),
             "--n_threads_batch", str(THREADS), "--host", "127.0.0.1", "--port", str(port), "--interrupt_requests", "false"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        deadline = time.monotonic() + 120
        while True:
            try:
                ask(port, params, 300)
                break
            except OSError:
                if server[-1].poll() is not None:
                    raise RuntimeError("llama_cpp.server ended; pip install 'llama-cpp-python[server]'")
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        rng, first = np.random.default_rng(1), [True]

        def step():
            if first:
                first.clear()
                return want
            failures = []

            def one(word):
                try:
                    ask(port, params, word)
                except Exception as e:
                    failures.append(e)

            all = [threading.Thread(target=one, args=(int(w),)) for w in rng.integers(300, 20000, params["clients"])]
            for t in all:
                t.start()
            for t in all:
                t.join()
            if failures:
                raise failures[0]

        return step

    return [("llama_cpp.server", prepare)]


# No end of the text, and no byte that begins a longer character: the server goes on past max_tokens until
# a character is whole. The bytes' tokens are 3 to 258.
BIAS = {"2": -100} | {str(3 + lead): -100 for lead in range(0xC0, 0x100)}


def ask(port, params, word):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    c.request("POST", "/v1/completions", json.dumps({"prompt": "w%d" % word, "max_tokens": params["tokens"], "temperature": 1, "logit_bias": BIAS}),
              {"Content-Type": "application/json"})
    r = c.getresponse()
    text = r.read()
    if r.status != 200:
        raise RuntimeError("%d %s" % (r.status, text[:200]))
    n = json.loads(text)["usage"]["completion_tokens"]
    if n != params["tokens"]:
        raise RuntimeError("%d tokens, want %d" % (n, params["tokens"]))


if not IK and not os.environ.get("BENCH_PEERS_VERBOSE"):

    @ll.llama_log_callback
    def log(level, text, user):
        pass

    ll.llama_log_set(log, ctypes.c_void_p(0))
ll.llama_backend_init()
try:
    serve(PACKAGE, importlib.import_module(PACKAGE).__version__, THREADS,
          {"llm_decode": decode(1), "llm_decode4": decode(4), "llm_decode8": decode(8), "llm_prompt": prompt, "llm_open": opening, "llm_serve": served}, lambda r: r, resident)
finally:
    for s in server:
        s.kill()
