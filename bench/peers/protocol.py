"""The peers' side of the protocol: one JSON object per line, see bench/doc.go.

A workload is a function workload(data, params, threads) that returns
formulations, pairs of a name and a function that prepares a step: a function
without arguments that computes everything once and waits for it. The step's
result is a dict of what `Data.want` holds, anything that numpy can read.
"""

import ctypes
import gc
import json
import os
import sys
import time
import traceback

import numpy as np


class Data:
    """The arrays of one workload, as gomoe wrote them."""

    def __init__(self, folder):
        self.folder = folder

    def __getitem__(self, name):
        return np.load(os.path.join(self.folder, "in_" + name + ".npy"))

    def want(self):
        """gomoe's results by name."""
        names = [f[5:-4] for f in sorted(os.listdir(self.folder)) if f.startswith("want_") and f.endswith(".npy")]
        return {n: np.load(os.path.join(self.folder, "want_" + n + ".npy")) for n in names}


def error(got, want):
    """The largest difference of any result, relative to its largest element."""
    worst = 0.0
    for name, w in want.items():
        if name not in got:
            raise KeyError("result %s is missing" % name)
        g = np.asarray(got[name], dtype=np.float64)
        if g.shape != w.shape:
            raise ValueError("result %s has shape %s, want %s" % (name, g.shape, w.shape))
        w = w.astype(np.float64)
        if not np.isfinite(g).all():
            return float("inf")
        worst = max(worst, float(np.abs(g - w).max() / max(np.abs(w).max(), 1e-30)))
    return worst


def spin(step, seconds, least=3):
    """Runs step for at least so long and so often; nanoseconds of each run."""
    ns = []
    begin = time.perf_counter_ns()
    while len(ns) < least or time.perf_counter_ns() - begin < seconds * 1e9:
        t = time.perf_counter_ns()
        step()
        ns.append(time.perf_counter_ns() - t)
    return ns


def release():
    """Gives memory that is no longer used back to the system: malloc is told to keep it, for the sake of steps."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):  # not glibc
        pass


def choose(formulations, want, tolerance, patience, to_numpy, log):
    """Prepares, checks and times every formulation; keeps the fastest right one.

    After a third of gomoe's patience it begins no more, if one is right.

    Returns its step, or None, and what was found of each."""
    best, step, table, begin = None, None, [], time.monotonic()
    for name, prepare in formulations:
        step = None  # one that was slower
        release()
        row = {"name": name}
        table.append(row)
        if best and time.monotonic() - begin > patience / 3:
            row["failure"] = "not tried: the others took too long, see -patience"
            continue
        try:
            step = prepare()
            row["error"] = error(to_numpy(step()), want)
            if not row["error"] <= tolerance:
                row["failure"] = "disagrees: %.3g" % row["error"]
                row["error"] = min(row["error"], 1e30)
                continue
            row["ns"] = int(min(spin(step, 0.05, 2)))
            if best is None or row["ns"] < 3 * best[0]:
                row["ns"] = int(min(spin(step, 0.3)))
            log("%s: %.3f ms" % (name, row["ns"] / 1e6))
        except Exception as e:  # a formulation that this version cannot run is a row of the table
            row["failure"] = ("%s: %s" % (type(e).__name__, e)).split("\n")[0][:200]
            log(traceback.format_exc())
            continue
        if best is None or row["ns"] < best[0]:
            best = (row["ns"], step, name)
    return best, table


def serve(name, version, threads, workloads, to_numpy, resident=lambda: 0):
    """Answers requests on stdin until it ends. resident returns the bytes of its own that the process holds in memory."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print goes to stderr

    def log(text):
        if os.environ.get("BENCH_PEERS_VERBOSE"):
            sys.stderr.write(text + "\n")

    def reply(**what):
        replies.write(json.dumps(what) + "\n")

    step = None
    reply(peer=name, version=version)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["op"] == "open":
                step = None
                w = workloads.get(request["workload"])
                if w is None:
                    reply(unsupported=True)
                    continue
                data = Data(request["dir"])
                best, table = choose(w(data, request["params"], threads), data.want(), request["tolerance"], request["patience"], to_numpy, log)
                if best is None:
                    reply(formulations=table, failure="no formulation runs and agrees: " + table[0]["failure"])
                else:
                    step = best[1]
                    reply(formulations=table, best=best[2])
            elif request["op"] == "close":
                step = best = data = None
                release()
                reply()
            elif request["op"] == "time":
                reply(ns=spin(step, request["seconds"], 1), resident=resident())
            else:
                reply(failure="unknown op %s" % request["op"])
        except Exception as e:
            log(traceback.format_exc())
            reply(failure="%s: %s" % (type(e).__name__, str(e).split("\n")[0][:300]))
