"""Records what one rank of a ring of MLX's sends and receives, for the tests.

usage: python record.py recorded.json.bz2

For each job it starts the ranks of rank.py, with proxies in the connections of one of
them, and writes what each connection brought that rank, in base64, and the SHA-256 of
what the rank sent on it and of each of its results.
"""

import base64
import bz2
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def free(n):
    socks = [socket.socket() for _ in range(n)]
    for s in socks:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in socks]
    for s in socks:
        s.close()
    return ports


def pump(a, b, into):
    while True:
        try:
            data = a.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            break
        into += data
        b.sendall(data)
    try:
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def proxy(listen, to, forth, back):
    """Copies what comes on listen to the port to, and back."""
    l = socket.create_server(("127.0.0.1", listen))

    def run():
        a, _ = l.accept()
        while True:
            try:
                b = socket.create_connection(("127.0.0.1", to))
                break
            except OSError:
                time.sleep(0.01)
        for s in (a, b):
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threads = [threading.Thread(target=pump, args=(a, b, forth)), threading.Thread(target=pump, args=(b, a, back))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    t = threading.Thread(target=run)
    t.start()
    return t


def record(n, conns, rank, ops):
    ports = free(n * conns + 2 * conns)
    nodes = [[f"127.0.0.1:{ports[r * conns + c]}" for c in range(conns)] for r in range(n)]
    side = {"left": [], "right": []}
    hidden = {}  # what a rank is told instead of its neighbour's addresses
    threads = []
    for k, (name, to) in enumerate((("left", rank), ("right", (rank + 1) % n))):
        seen = []
        for c in range(conns):
            port = ports[n * conns + k * conns + c]
            forth, back = bytearray(), bytearray()
            threads.append(proxy(port, int(nodes[to][c].split(":")[1]), forth, back))
            seen.append(f"127.0.0.1:{port}")
            side[name].append((forth, back) if name == "left" else (back, forth))  # in, out
        hidden[(to + n - 1) % n] = (to, seen)
    with tempfile.TemporaryDirectory() as d:
        procs = []
        for r in range(n):
            mine = [list(a) for a in nodes]
            if r in hidden:
                to, seen = hidden[r]
                mine[to] = seen
            path = os.path.join(d, f"{r}.json")
            with open(path, "w") as f:
                json.dump(mine, f)
            env = dict(os.environ, MLX_RANK=str(r), MLX_HOSTFILE=path)
            procs.append(subprocess.Popen([sys.executable, os.path.join(HERE, "rank.py"), json.dumps(ops)], env=env, stdout=subprocess.PIPE))
        results = [p.communicate(timeout=120)[0] for p in procs]
    for t in threads:
        t.join()
    text = lambda b: base64.b64encode(bytes(b)).decode()
    return {
        "ranks": n, "rank": rank, "ops": ops, "results": json.loads(results[rank]),
        **{name: [{"in": text(i), "out": hashlib.sha256(o).hexdigest(), "sent": len(o)} for i, o in side[name]] for name in side},
    }


def op(name, dtype, count, seed=1, period=0):
    return {"op": name, "dtype": dtype, "count": count, "seed": seed, "period": period}


def main():
    types = ["u8", "u32", "i32", "i64", "f16", "bf16", "f32", "f64"]
    every = [op(o, d, 20 + k, seed=k) for k, d in enumerate(types) for o in ("all_sum", "all_max", "all_min", "all_gather")]
    every += [op("send_recv", "f32", 300), op("barrier", "f32", 0), op("all_sum", "bf16", 2), op("all_max", "f64", 1)]
    every += [op("all_sum", "f32", 3), op("all_sum", "f16", 4), op("all_gather", "u8", 1), op("send_recv", "u8", 1)]
    # Two lanes and more need 256 KiB for each rank; what repeats is small when compressed.
    large = [op("all_sum", "u8", 3 * 5 * 262144 + 1, period=11), op("all_sum", "bf16", 3 * 262144 + 5, period=13), op("all_gather", "u8", 5 * 262144 + 3, period=7)]
    large += [op("all_max", "u32", 3 * 3 * 65536 + 2, period=5), op("all_gather", "f32", 3 * 65536 + 1, period=17), op("send_recv", "i64", 1001, period=19), op("send_recv", "u8", 1500, period=19), op("all_gather", "u8", 4 * 262144, period=23)]
    jobs = [record(3, 1, 1, every), record(2, 1, 0, every), record(5, 1, 4, every), record(3, 2, 1, large), record(2, 2, 1, large[2:])]
    import mlx.core as mx

    with open(sys.argv[1], "wb") as f:
        f.write(bz2.compress(json.dumps({"mlx": mx.__version__, "jobs": jobs}).encode()))


main()
