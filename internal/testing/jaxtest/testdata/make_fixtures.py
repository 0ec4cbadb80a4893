"""Writes *.json beside itself: programs, inputs, and what JAX makes of them.

    python make_fixtures.py            (JAX 0.10.2 and NumPy, on a CPU)
    python make_fixtures.py moe shape  (these files only)

A case gives the body of a program in gomoe's text form and the same function in
JAX. Functions run one operation at a time, not jitted, with 64-bit types on and
exact matrix products, so that every rounding is the one that the operation
documents. Cotangents are drawn here.
"""
import json
import pathlib
import sys
import zlib

import jax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_default_matmul_precision", "highest")

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

assert jax.__version__ == "0.10.2", jax.__version__
assert jax.config.jax_threefry_partitionable

NAME = {"bool": "bool", "uint8": "u8", "uint32": "u32", "int32": "i32", "int64": "i64",
        "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}
DTYPE = {v: (ml_dtypes.bfloat16 if k == "bfloat16" else np.dtype(k)) for k, v in NAME.items()}
FLOATS = ["f16", "bf16", "f32", "f64"]
INTS = ["u8", "u32", "i32", "i64"]
# One unit in the last place of the narrow types; a few of the wide ones, whose
# functions are approximated in different ways.
REL = {"f16": 1e-3, "bf16": 8e-3, "f32": 2e-6, "f64": 1e-13}
ABS = {"f16": 1e-6, "bf16": 1e-37, "f32": 1e-37, "f64": 1e-300}  # XLA has no subnormals

nan, inf = float("nan"), float("inf")
files = {}
names = set()


def arr(values, d="f32", shape=None):
    x = np.asarray(values)
    x = x.astype(DTYPE[d])
    return x if shape is None else x.reshape(shape)


def rand(d, *shape, seed=0, lo=-2.0, hi=2.0):
    rng = np.random.default_rng([seed, *shape])
    return rng.uniform(lo, hi, shape).round(3).astype(DTYPE[d])  # short in text


def ints(d, *shape, lo=0, hi=4, seed=0):
    return np.random.default_rng([seed, *shape]).integers(lo, hi, shape).astype(DTYPE[d])


def typename(x):
    return f"{NAME[x.dtype.name]}[{','.join(map(str, x.shape))}]"


def word(v, kind):
    if kind == "bool":
        return "1" if v else "0"
    if kind in INTS:
        return str(int(v))
    if kind in ("bf16", "f16"):
        v = np.float32(v)
    if np.isnan(v):
        return "nan"
    return repr(float(v)) if kind == "f64" else np.format_float_scientific(v, trim="-") if 0 < abs(v) < 1e-4 or 1e9 < abs(v) < inf else np.format_float_positional(v, trim="-")


def tensor(x):
    x = np.asarray(x)
    kind = NAME[x.dtype.name]
    return {"type": typename(x), "data": " ".join(word(v, kind) for v in x.reshape(-1))}


def isfloat(x):
    return jnp.issubdtype(x.dtype, jnp.floating)


def case(name, body, fn, inputs, *, ret="y", grad=True, exact=False, rel=None, abs_=None, grad_rel=None, grad_abs=None,
         ct=None, note="", before=""):
    assert name not in names, name
    names.add(name)
    inputs = {k: np.asarray(v) for k, v in inputs.items()}
    lines = [l.strip() for l in body.strip().splitlines()]
    text = before + "program p(" + ", ".join(f"{k} {typename(v)}" for k, v in inputs.items()) + ") {\n"
    text += "".join(f"\t{l}\n" for l in lines) + f"\treturn {ret}\n}}\n"
    outs = lambda *a: (lambda r: tuple(r) if isinstance(r, (tuple, list)) else (r,))(fn(*a))
    args = [jnp.asarray(v) for v in inputs.values()]
    for a, v in zip(args, inputs.values()):
        assert a.dtype == v.dtype, (name, a.dtype, v.dtype)
    got = outs(*args)
    kinds = [NAME[np.asarray(o).dtype.name] for o in got if isfloat(np.asarray(o))] or ["f64"]
    kinds += [NAME[v.dtype.name] for v in inputs.values() if isfloat(v)]
    kind = min(kinds, key=["bf16", "f16", "f32", "f64"].index)
    rel = 0 if exact else REL[kind] if rel is None else rel
    abs_ = 0 if exact else ABS[kind] if abs_ is None else abs_
    c = {"name": name, "text": text, "in": {k: tensor(v) for k, v in inputs.items()}, "out": [tensor(o) for o in got],
         "rel": rel, "abs": abs_}
    if note:
        c["note"] = note
    which = [i for i, a in enumerate(args) if isfloat(a)]
    fout = [i for i, o in enumerate(got) if isfloat(o)]
    if grad and which and fout:
        def f(*xs):
            full = list(args)
            for i, x in zip(which, xs):
                full[i] = x
            r = outs(*full)
            return tuple(r[i] for i in fout)
        _, pull = jax.vjp(f, *[args[i] for i in which])
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        cts = ct or [rng.uniform(-1, 1, got[i].shape).round(2).astype(np.float32).astype(got[i].dtype) for i in fout]
        cts = tuple(jnp.asarray(x) for x in cts)
        c["cotangent"] = [tensor(x) for x in cts]
        c["gradient"] = [tensor(x) for x in pull(cts)]
        c["gradrel"] = (0 if exact else 5 * rel) if grad_rel is None else grad_rel
        c["gradabs"] = (0 if exact else max(abs_, rel)) if grad_abs is None else grad_abs
    files.setdefault(current[0], []).append({k: v for k, v in c.items() if v != 0})


current = [""]


def family(f):
    if len(sys.argv) == 1 or f.__name__ in sys.argv[1:]:
        current[0] = f.__name__
        f()


def main():
    here = pathlib.Path(__file__).parent
    for name, cases in files.items():
        head = f"JAX {jax.__version__}, NumPy {np.__version__}"
        body = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
        path = here / f"{name}.json"
        path.write_text(f'{{"versions":{json.dumps(head)},"cases":[\n{body}\n]}}\n')
        print(f"{path.name}: {len(cases)} cases, {path.stat().st_size} bytes")


# ---------------------------------------------------------------- elementwise

EDGES = [nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 0.49999997, -3.7, 7.25, 20.0, -20.0,
         90.0, -90.0, 1e-5, -1e-5, 3e-3, 1e4, -1e4, 3e38]
SMALL = [nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -3.5, 7.0]
INT_EDGES = {"u8": [0, 1, 7, 128, 200, 255], "u32": [0, 1, 3, 2**31 - 1, 2**31, 2**32 - 1],
             "i32": [0, -1, 7, -7, 2**31 - 1, -2**31], "i64": [0, -1, 7, -7, 2**63 - 1, -2**63]}


def pairs(values, d):
    x = arr(values, d)
    return {"x": np.repeat(x, len(x)), "y": np.tile(x, len(x))}


@family
def elementwise():
    exact = {"neg", "abs", "sign", "square", "floor", "ceil", "sqrt"}
    positive = {"log", "sqrt", "rsqrt"}
    unary = {n: getattr(lax, n) for n in ["neg", "abs", "sign", "square", "floor", "ceil", "exp", "expm1", "log", "log1p",
                                          "sqrt", "rsqrt", "sin", "cos", "tanh", "logistic", "erf"]}
    away, even = lax.RoundingMethod.AWAY_FROM_ZERO, lax.RoundingMethod.TO_NEAREST_EVEN
    for n, f in unary.items():
        lo = 0.1 if n in positive else -0.9 if n == "log1p" else -3
        eq = n in exact
        case(f"{n}_edges", f"y = {n}(x)", f, {"x": arr(EDGES)}, exact=eq, grad_rel=1e-5, grad_abs=1e-6)
        for d in FLOATS:
            case(f"{n}_{d}", f"y = {n}(x)", f, {"x": rand(d, 2, 5, lo=lo, hi=3)}, exact=eq,
                 grad_rel=10 * REL[d], grad_abs=2 * REL[d])
        if n in ("neg", "abs", "sign", "square"):
            for d in INTS:
                if d[0] == "i" or n in ("neg", "square", "sign"):
                    case(f"{n}_{d}", f"y = {n}(x)", f, {"x": arr(INT_EDGES[d], d)}, exact=True)
    for d in FLOATS:
        halves = arr([nan, inf, -inf, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.5, 0.3, -0.3, 0.7, 100.5], d)
        case(f"round_{d}", "y = round(x)", lambda x: lax.round(x, away), {"x": halves}, exact=True)
        case(f"round_even_{d}", "y = round(x) to_even=true", lambda x: lax.round(x, even), {"x": halves}, exact=True)
        case(f"is_finite_{d}", "y = is_finite(x)", lax.is_finite, {"x": arr(EDGES[:9], d)}, exact=True)

    for n in ["add", "sub", "mul", "div", "rem", "pow", "max", "min"]:
        f = getattr(lax, n)
        eq = n != "pow"
        p = pairs(SMALL, "f32")
        case(f"{n}_edges", f"y = {n}(x, y0)", f, {"x": p["x"], "y0": p["y"]}, exact=eq, grad=n != "rem", grad_rel=1e-5, grad_abs=1e-6,
             note="No derivatives where the remainder is NaN: ours is NaN there, JAX's with respect to y infinite." if n == "rem" else "")
        if n == "rem":
            fine = np.isfinite(p["x"]) & (np.isfinite(p["y"])) & (p["y"] != 0)
            case("rem_derivative", "y = rem(x, y0)", f, {"x": p["x"][fine], "y0": p["y"][fine]}, exact=True,
                 grad_abs=1e-37)  # zeros have either sign
        for d in FLOATS:
            lo = 0.1 if n == "pow" else -2
            case(f"{n}_{d}", f"y = {n}(x, y0)", f, {"x": rand(d, 2, 6, lo=lo), "y0": rand(d, 2, 6, seed=1, lo=lo)}, exact=eq,
                 grad_rel=10 * REL[d], grad_abs=2 * REL[d])
        if n != "pow":
            for d in INTS:
                p = pairs(INT_EDGES[d], d)
                case(f"{n}_{d}", f"y = {n}(x, y0)", f, {"x": p["x"], "y0": p["y"]}, exact=True)
    for n in ["eq", "ne", "lt", "le", "gt", "ge"]:
        f = getattr(lax, n)
        p = pairs(SMALL[:8], "f32")
        case(f"{n}_f32", f"y = {n}(x, y0)", f, {"x": p["x"], "y0": p["y"]}, exact=True)
        for d in ["bf16", "i32", "u8", "u32", "i64", "bool"]:
            p = pairs(INT_EDGES.get(d, [0, 1]), d)
            case(f"{n}_{d}", f"y = {n}(x, y0)", f, {"x": p["x"], "y0": p["y"]}, exact=True)
    for n, f in {"and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor}.items():
        for d in INTS + ["bool"]:
            p = pairs(INT_EDGES.get(d, [0, 1]), d)
            case(f"{n}_{d}", f"y = {n}(x, y0)", f, {"x": p["x"], "y0": p["y"]}, exact=True)
    for d in INTS + ["bool"]:
        case(f"not_{d}", "y = not(x)", lax.bitwise_not, {"x": arr(INT_EDGES.get(d, [0, 1]), d)}, exact=True)
    for n in ["max", "min"]:
        p = pairs([0, 1], "bool")
        case(f"{n}_bool", f"y = {n}(x, y0)", getattr(lax, n), {"x": p["x"], "y0": p["y"]}, exact=True)

    case("select_bool", "y = select_n(w, a, b)", lax.select_n,
         {"w": arr([0, 1, 1, 0], "bool"), "a": arr([1, nan, 3, -0.0]), "b": arr([5, 6, nan, 8])}, exact=True)
    case("select_scalar", "y = select_n(w, a, b)", lax.select_n,
         {"w": arr(1, "bool"), "a": rand("f32", 2, 2), "b": rand("f32", 2, 2, seed=1)}, exact=True)
    cases = {"a": rand("f32", 6), "b": rand("f32", 6, seed=1), "c": rand("f32", 6, seed=2)}
    case("select_i32", "y = select_n(w, a, b, c)", lax.select_n, {"w": arr([0, 1, 2, 2, 1, 0], "i32"), **cases}, exact=True)
    case("select_out_of_range", "y = select_n(w, a, b, c)", lax.select_n, {"w": arr([0, 1, 2, 3, -1, 100], "i32"), **cases}, exact=True, grad=False,
         note="JAX selects the nearest case as ours does, but its derivative is 0 there; ours goes to the selected case.")
    x = arr([nan, -3, -1, -0.5, 0, 0.5, 1, 3, inf, -inf])
    case("clamp_scalar", "y = clamp(lo, x, hi)", lax.clamp, {"lo": arr(-1), "x": x, "hi": arr(1)}, grad=False, exact=True)
    case("clamp_array", "y = clamp(lo, x, hi)", lax.clamp,
         {"lo": rand("f32", 2, 4, lo=-1, hi=0), "x": rand("f32", 2, 4, seed=1), "hi": rand("f32", 2, 4, lo=0, hi=1)}, exact=True)
    case("clamp_nan_bounds", "y = clamp(lo, x, hi)", lax.clamp,
         {"lo": arr([nan, 0, 2]), "x": arr([1, 1, 1]), "hi": arr([2, nan, 0])}, grad=False, exact=True)
    case("clamp_at_bounds", "y = clamp(lo, x, hi)", lax.clamp,
         {"lo": arr([0, 0, 1]), "x": arr([0, 1, 1]), "hi": arr([1, 1, 1])}, exact=True)
    case("clamp_i32", "y = clamp(lo, x, hi)", lax.clamp, {"lo": arr(-3, "i32"), "x": arr(INT_EDGES["i32"], "i32"), "hi": arr(5, "i32")},
         exact=True)

    values = {"bool": [0, 1], **INT_EDGES}
    floats = [nan, inf, -inf, 0.0, -0.0, 0.7, -0.7, 1.5, 2.5, -2.5, 255.5, 300, -1, 70000, -70000, 3e9, -3e9, 1e19, -1e19, 1.00390625]
    for s in NAME.values():
        for d in NAME.values():
            x = arr(floats if s in FLOATS else values[s], s)
            if (s, d) in (("f64", "bf16"), ("i64", "bf16")):
                x, note = arr([0, 1, 3, 100, 256], s), "XLA rounds these twice, through f32; ours once."
            else:
                note = ""
            case(f"convert_{s}_{d}", f"y = convert_element_type(x) dtype={d}", lambda x: lax.convert_element_type(x, DTYPE[d]),
                 {"x": x}, exact=True, note=note)
    case("stop_gradient", "s = stop_gradient(x)\ny = mul(x, s)", lambda x: x * lax.stop_gradient(x), {"x": rand("f32", 4)}, exact=True)
    case("add_any", "y = add_any(a, b, c)", lambda a, b, c: a + b + c, {k: rand("f32", 4, seed=i) for i, k in enumerate("abc")}, exact=True)
    for d in FLOATS + INTS:
        value = 2.75 if d in FLOATS else 2  # an integer type has no 2.75
        case(f"full_{d}", f"c = full() value={value} dtype={d} shape=[2,3]\ny = add(x, c)", lambda x: x + jnp.full((2, 3), value, x.dtype),
             {"x": ints(d, 2, 3)}, exact=True)

    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)
    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (ct * x,))
    case("custom_vjp", "y = custom_vjp(x) fn=f vjp=df", f, {"x": rand("f32", 4)},
         before="program f(x f32[4]) {\n\ty = sin(x)\n\treturn y\n}\n\nprogram df(x f32[4], y f32[4], ct f32[4]) {\n\td = mul(ct, x)\n\treturn d\n}\n\n")


# ---------------------------------------------------------------------- shape

@family
def shape():
    every = list(NAME.values())
    for d in every:
        x = ints(d, 2, 3, 4, hi=2 if d == "bool" else 100)
        case(f"reshape_{d}", "y = reshape(x) shape=[4,6]", lambda x: lax.reshape(x, (4, 6)), {"x": x}, exact=True)
        case(f"transpose_{d}", "y = transpose(x) permutation=[2,0,1]", lambda x: lax.transpose(x, (2, 0, 1)), {"x": x}, exact=True)
        case(f"rev_{d}", "y = rev(x) dimensions=[0,2]", lambda x: lax.rev(x, (0, 2)), {"x": x}, exact=True)
        case(f"slice_{d}", "y = slice(x) start_indices=[0,1,0] limit_indices=[2,3,4] strides=[1,1,3]",
             lambda x: lax.slice(x, (0, 1, 0), (2, 3, 4), (1, 1, 3)), {"x": x}, exact=True)
        case(f"concatenate_{d}", "y = concatenate(x, z, x) dimension=1", lambda x, z: lax.concatenate([x, z, x], 1),
             {"x": x, "z": x[:, :1]}, exact=True)
        case(f"broadcast_{d}", "y = broadcast_in_dim(x) shape=[2,3,4] dims=[0,2]", lambda x: lax.broadcast_in_dim(x, (2, 3, 4), (0, 2)),
             {"x": x[:, :1, 1]}, exact=True, rel=None, grad=d in ("f32", "f64"), grad_rel=1e-6, grad_abs=1e-6)
        case(f"pad_{d}", "y = pad(x, v) low=[1,-1,0] high=[0,2,-1] interior=[0,1,2]",
             lambda x, v: lax.pad(x, v, [(1, 0, 0), (-1, 2, 1), (0, -1, 2)]), {"x": x, "v": x[0, 0, 0]}, exact=True, grad=False)
        case(f"dynamic_slice_{d}", "y = dynamic_slice(x, i, j, k) slice_sizes=[1,2,3]",
             lambda x, i, j, k: lax.dynamic_slice(x, (i, j, k), (1, 2, 3)),
             {"x": x, "i": arr(1, "i32"), "j": arr(0, "i32"), "k": arr(1, "i32")}, exact=True)
        if d != "bool":
            case(f"iota_{d}", f"c = iota() dtype={d} shape=[3,4] dimension=1\ny = add(x, c)",
                 lambda x: x + lax.broadcasted_iota(x.dtype, (3, 4), 1), {"x": ints(d, 3, 4)}, exact=True)
    case("pad_gradient", "y = pad(x, v) low=[1,-1] high=[-1,2] interior=[0,1]", lambda x, v: lax.pad(x, v, [(1, -1, 0), (-1, 2, 1)]),
         {"x": rand("f64", 4, 3), "v": rand("f64")})
    case("broadcast_size1", "y = broadcast_in_dim(x) shape=[4,3] dims=[0,1]", lambda x: lax.broadcast_in_dim(x, (4, 3), (0, 1)),
         {"x": rand("f64", 1, 3)})
    case("pad_nan", "y = pad(x, v) low=[2] high=[1]", lambda x, v: lax.pad(x, v, [(2, 1, 0)]), {"x": arr([1, -0.0]), "v": arr(nan)},
         exact=True, grad=False)
    for n, (i, j) in {"in": (1, 2), "above": (9, 9), "below": (-1, -7), "mixed": (2**31 - 1, -2**31)}.items():
        note = "allow_negative_indices=False: ours clamps, and counts no index from the end."
        at = {"i": arr(i, "i32"), "j": arr(j, "i32")}
        case(f"dynamic_slice_{n}", "y = dynamic_slice(x, i, j) slice_sizes=[2,3]",
             lambda x, i, j: lax.dynamic_slice(x, (i, j), (2, 3), allow_negative_indices=False), {"x": rand("f32", 4, 6), **at}, exact=True, note=note)
        case(f"dynamic_update_slice_{n}", "y = dynamic_update_slice(x, u, i, j)",
             lambda x, u, i, j: lax.dynamic_update_slice(x, u, (i, j), allow_negative_indices=False),
             {"x": rand("f32", 4, 6), "u": rand("f32", 2, 3), **at}, exact=True, note=note)
    note = "Indices are in range: outside, ours stops the run and JAX clips or fills."
    i = arr([[3, 0], [3, 2]], "i32")
    for axis in (0, 1, 2):
        x = rand("f32", 4, 4, 4)
        case(f"gather_{axis}", f"y = gather(x, i) axis={axis}", lambda x, i: jnp.take(x, i, axis), {"x": x, "i": i}, note=note)
        sel = (slice(None),) * axis
        u = rand("f32", *([4] * axis), 2, 2, *([4] * (2 - axis)), seed=2)
        case(f"scatter_add_{axis}", f"y = scatter_add(x, i, u) axis={axis}", lambda x, i, u: x.at[sel + (i,)].add(u),
             {"x": x, "i": i, "u": u}, note=note)
    case("scatter_add_i32", "y = scatter_add(x, i, u)", lambda x, i, u: x.at[i].add(u),
         {"x": arr([2**31 - 1, 0], "i32"), "i": arr([0, 0, 1], "i32"), "u": arr([1, 2, 3], "i32")}, exact=True)
    case("gather_bool", "y = gather(x, i)", lambda x, i: jnp.take(x, i, 0), {"x": arr([0, 1, 1], "bool"), "i": arr([2, 0, 0], "i32")}, exact=True)
    for d in every:
        case(f"one_hot_{d}", f"y = one_hot(i) num_classes=3 dtype={d}", lambda i: jax.nn.one_hot(i, 3, dtype=DTYPE[d]),
             {"i": arr([[0, 2], [3, -1]], "i32")}, exact=True)


# --------------------------------------------------------------------- reduce

@family
def reduce():
    red = {"reduce_sum": jnp.sum, "reduce_prod": jnp.prod, "reduce_max": jnp.max, "reduce_min": jnp.min}
    for n, f in red.items():
        for d in FLOATS:
            case(f"{n}_{d}", f"y = {n}(x) axes=[0,2]", lambda x: f(x, (0, 2)), {"x": rand(d, 2, 4, 3)}, grad=d in ("f32", "f64"),
                 exact=n[-3:] in ("max", "min"), abs_=REL[d], rel=REL[d] * (3 if n == "reduce_prod" else 1), grad_rel=1e-5, grad_abs=1e-6)
        for d in INTS:
            case(f"{n}_{d}", f"y = {n}(x) axes=[1]", lambda x: f(x, 1).astype(x.dtype), {"x": arr(INT_EDGES[d], d, (2, 3))}, exact=True)
        special = [[nan, 1, 2], [inf, -inf, 1], [inf, 1, 0.0], [-0.0, 0.0, -0.0], [-1, -1, -3], [2, 2, 1], [-0.0, -0.0, -0.0]]
        case(f"{n}_special", f"y = {n}(x) axes=[1]", lambda x: f(x, 1), {"x": arr(special)}, grad=False, exact=n[-3:] in ("max", "min"))
        if n[-3:] in ("sum", "rod"):
            case(f"{n}_empty", f"y = {n}(x) axes=[1]", lambda x: f(x, 1), {"x": arr([], "f32", (2, 0))}, exact=True)
    for n in ("reduce_max", "reduce_min"):
        f, v = red[n], {"reduce_max": -1, "reduce_min": 1}[n]
        case(f"{n}_ties", f"y = {n}(x) axes=[1]", lambda x: f(x, 1), {"x": arr([[2, 2, 1, 2], [v, 3, 3, v], [0, -0.0, 0, 0]])})
        case(f"{n}_bool", f"y = {n}(x) axes=[1]", lambda x: f(x, 1), {"x": arr([[0, 1], [0, 0], [1, 1]], "bool")}, exact=True)
    case("reduce_prod_zeros", "y = reduce_prod(x) axes=[1]", lambda x: jnp.prod(x, 1), {"x": arr([[1, 2, 3, 4], [0, 2, 3, 4], [2, 0, 3, 0], [0, 0, 0, 0]])})
    ties = arr([[1, 3, 3, 2], [nan, 1, nan, 5], [-inf, -inf, -inf, -inf], [0, -0.0, 0, -0.0], [-0.0, 0, 1, 1], [inf, nan, -inf, inf]])
    for n, f in {"argmax": lax.argmax, "argmin": lax.argmin}.items():
        case(f"{n}_ties", f"y = {n}(x) axis=1", lambda x: f(x, 1, np.int32), {"x": ties}, exact=True)
        case(f"{n}_axis0", f"y = {n}(x) index_dtype=i64", lambda x: f(x, 0, np.int64), {"x": rand("f64", 4, 3)}, exact=True)
        for d in INTS + ["bf16"]:
            case(f"{n}_{d}", f"y = {n}(x) axis=1 index_dtype=u8", lambda x: f(x, 1, np.uint8), {"x": ints(d, 3, 5)}, exact=True)
    for r in (False, True):
        text = " reverse=true" if r else ""
        for d in FLOATS + INTS:
            case(f"cumsum_{d}_{int(r)}", f"y = cumsum(x) axis=1{text}", lambda x: lax.cumsum(x, 1, reverse=r),
                 {"x": rand(d, 2, 5) if d in FLOATS else arr(INT_EDGES[d], d, (2, 3))}, exact=d in INTS, grad=d in ("f32", "f64"),
                 abs_=None if d in INTS else {"f16": 4e-3, "bf16": 3e-2}.get(d, 4 * REL[d]),
                 note="" if d not in ("f16", "bf16") else "JAX rounds every partial sum, ours each result.")
    case("cumsum_special", "y = cumsum(x)", lambda x: lax.cumsum(x, 0), {"x": arr([1, inf, 2, -inf, 3, nan])}, grad=False)

    def sort(x, dim):
        i = lax.broadcasted_iota(np.int32, x.shape, dim)
        return lax.sort((x, i), dimension=dim, is_stable=True, num_keys=1)
    for d in list(NAME.values()):
        case(f"sort_{d}", "y, i = sort(x) dimension=1", lambda x: sort(x, 1), {"x": ints(d, 3, 6, hi=2 if d == "bool" else 4)}, ret="y, i", exact=True)
    case("sort_special", "y, i = sort(x) dimension=1", lambda x: sort(x, 1), {"x": ties}, ret="y, i", exact=True, grad=False)
    case("sort_axis0", "y, i = sort(x)", lambda x: sort(x, 0), {"x": rand("f64", 6, 4)}, ret="y, i", exact=True)
    for d in FLOATS + INTS:
        case(f"top_k_{d}", "y, i = top_k(x) k=3", lambda x: lax.top_k(x, 3), {"x": ints(d, 3, 6)}, ret="y, i", exact=True)
    case("top_k_special", "y, i = top_k(x) k=4", lambda x: lax.top_k(x, 4), {"x": ties}, ret="y, i", exact=True, grad=False)
    i = arr([[0, 2, 2], [1, 1, 0]], "i32")
    case("take_along_axis", "y = take_along_axis(x, i) axis=1", lambda x, i: jnp.take_along_axis(x, i, 1), {"x": rand("f32", 2, 4), "i": i})
    case("add_along_axis", "y = add_along_axis(x, i) axis=1 size=4",
         lambda x, i: jnp.zeros((2, 4), x.dtype).at[jnp.arange(2)[:, None], i].add(x), {"x": rand("f32", 2, 3), "i": i})

    def dots(n, lc, rc, lb, rb, a, b, extra="", pref=None, **kw):
        ps = [f"{k}=[{','.join(map(str, v))}]" for k, v in (("lhs_contract", lc), ("rhs_contract", rc), ("lhs_batch", lb), ("rhs_batch", rb)) if v]
        case(n, f"y = dot_general(a, b) {' '.join(ps)}{extra}",
             lambda a, b: lax.dot_general(a, b, ((lc, rc), (lb, rb)), precision="highest", preferred_element_type=pref), {"a": a, "b": b}, **kw)
    for d in FLOATS:
        kw = dict(rel=REL[d], abs_=4 * REL[d], grad=d in ("f32", "f64"), grad_abs=8 * REL[d])
        dots(f"dot_matmul_{d}", [1], [0], [], [], rand(d, 4, 6), rand(d, 6, 3), **kw)
        dots(f"dot_transposed_{d}", [0], [1], [], [], rand(d, 6, 4), rand(d, 3, 6), **kw)
    f = dict(abs_=1e-5)
    dots("dot_batch", [3], [3], [0, 2], [0, 2], rand("f32", 2, 4, 3, 5), rand("f32", 2, 6, 3, 5), **f)
    dots("dot_batch_crossed", [1], [2], [2, 0], [0, 1], rand("f32", 2, 3, 4), rand("f32", 4, 2, 3, 2), **f)
    dots("dot_two_contracted", [1, 2], [2, 0], [], [], rand("f32", 4, 2, 6), rand("f32", 6, 3, 2), **f)
    dots("dot_outer", [], [], [], [], rand("f32", 3), rand("f32", 4), **f)
    dots("dot_vectors", [0], [0], [], [], rand("f32", 9), rand("f32", 9, seed=1), **f)
    dots("dot_empty", [1], [0], [], [], rand("f32", 2, 0), rand("f32", 0, 3), exact=True)
    dots("dot_long", [1], [0], [], [], rand("f32", 2, 600), rand("f32", 600, 1), abs_=1e-4)
    dots("dot_special", [1], [0], [], [], arr([[nan, 1], [inf, 0], [inf, 1], [0, 1]]), arr([[1, -1], [inf, 2]]), grad=False)
    dots("dot_i32", [1], [0], [], [], arr(INT_EDGES["i32"], "i32", (2, 3)), ints("i32", 3, 2, lo=-5, hi=5), exact=True)
    dots("dot_u8", [1], [0], [], [], arr(INT_EDGES["u8"], "u8", (2, 3)), ints("u8", 3, 2), exact=True)
    dots("dot_bf16_f32", [1], [0], [], [], rand("bf16", 4, 6), rand("bf16", 6, 2), " dtype=f32", np.float32, rel=2e-6, abs_=1e-5, grad=False)


# --------------------------------------------------------------------- random

@family
def random():
    wrap = lambda k: jax.random.wrap_key_data(k)
    for d, seeds in {"i64": [0, 42, -1, 2**32 + 7, 2**63 - 1], "u32": [0, 2**32 - 1], "i32": [5, -1], "u8": [255]}.items():
        for s in seeds:
            case(f"random_seed_{d}_{s}", "k = random_seed(s)", lambda s: jax.random.key_data(jax.random.key(s)), {"s": arr(s, d)}, ret="k", exact=True)
    key = arr([0xdeadbeef, 42], "u32")
    for d, data in {"u32": [0, 1, 2**32 - 1], "i64": [2**33 + 5, -1], "i32": [-2]}.items():
        for n in data:
            case(f"random_fold_in_{d}_{n}", "l = random_fold_in(k, n)", lambda k, n: jax.random.key_data(jax.random.fold_in(wrap(k), n)),
                 {"k": key, "n": arr(n, d)}, ret="l", exact=True)
    for n in (0, 1, 3, 8):
        case(f"random_split_{n}", f"l = random_split(k){f' num={n}' if n else ''}", lambda k: jax.random.key_data(jax.random.split(wrap(k), n)),
             {"k": key}, ret="l", exact=True)
    for sh in ((), (3,), (2, 4, 3), (0, 2)):
        s = f"shape=[{','.join(map(str, sh))}]" if sh else ""
        n = "x".join(map(str, sh))
        for d in ("u8", "u32"):
            case(f"random_bits_{d}_{n}", f"y = random_bits(k) dtype={d} {s}", lambda k: jax.random.bits(wrap(k), sh, DTYPE[d]), {"k": key}, exact=True)
        for d in FLOATS:
            case(f"random_uniform_{d}_{n}", f"y = random_uniform(k) dtype={d} {s} lo=-0.75 hi=1.3",
                 lambda k: jax.random.uniform(wrap(k), sh, DTYPE[d], jnp.asarray(-0.75, DTYPE[d]), jnp.asarray(1.3, DTYPE[d])), {"k": key}, exact=True)
            case(f"random_normal_{d}_{n}", f"y = random_normal(k) dtype={d} {s}", lambda k: jax.random.normal(wrap(k), sh, DTYPE[d]), {"k": key},
                 rel={"f32": 4e-7, "f64": 1e-14}.get(d), note="The logarithm inside is not XLA's, so the last bits may differ.")
    # A wide range, in which the roundings of 16-bit arithmetic show. XLA rounds the product
    # and the sum; where the processor has arithmetic of f16 (AVX512-FP16) it fuses them.
    for d in ("f16", "bf16"):
        case(f"random_uniform_{d}_wide", f"y = random_uniform(k) dtype={d} shape=[512] lo=-1 hi=10",
             lambda k: jax.random.uniform(wrap(k), (512,), DTYPE[d], jnp.asarray(-1, DTYPE[d]), jnp.asarray(10, DTYPE[d])), {"k": arr([0, 7], "u32")}, exact=True)
    case("bernoulli", "u = random_uniform(k) dtype=f32 shape=[3,4] hi=1\np0 = full() value=0.3 dtype=f32 shape=[3,4]\ny = lt(u, p0)",
         lambda k: jax.random.bernoulli(wrap(k), np.float32(0.3), (3, 4)), {"k": key}, exact=True)


# ------------------------------------------------------- composed and fused

@family
def composed():
    lines = arr([[1, 2, 3, 4], [-inf, 0, 1, -inf], [-inf, -inf, -inf, -inf], [inf, 0, 1, 2], [nan, 0, 1, 2], [90, -90, 89, 0], [5, 5, 5, 5], [3e38, -3e38, 0, 1], [-200, -201, -202, -200]])
    norm = {"softmax": jax.nn.softmax, "log_softmax": jax.nn.log_softmax, "logsumexp": jax.scipy.special.logsumexp}
    for n, f in norm.items():
        case(f"{n}_special", f"y = {n}(x) axis=1", lambda x: f(x, axis=1), {"x": lines}, grad=False, abs_=1e-7)
        finite = lines[[0, 1, 5, 6, 8]]
        case(f"{n}_masked", f"y = {n}(x) axis=1", lambda x: f(x, axis=1), {"x": finite}, abs_=1e-6, grad_abs=1e-6)
        for d in FLOATS:
            narrow = d in ("f16", "bf16")
            note = "JAX rounds every step, ours once." if narrow else ""
            case(f"{n}_{d}", f"y = {n}(x) axis=1", lambda x: f(x, axis=1), {"x": rand(d, 2, 6, 3)}, rel=REL[d] * (3 if narrow else 1), abs_=REL[d] * 2,
                 grad=not narrow, note=note)
        case(f"{n}_axis0", f"y = {n}(x)", lambda x: f(x, axis=0), {"x": rand("f64", 5, 4)}, abs_=1e-13)
    i = arr([[0, 2], [2, 4]], "i32")
    for d in FLOATS:
        narrow = d in ("f16", "bf16")
        kw = dict(rel=REL[d] * (4 if narrow else 1), abs_=REL[d] * (4 if narrow else 1), grad=not narrow)
        x, z, g, b = rand(d, 4, 6, lo=-4, hi=4), rand(d, 4, 6, seed=1), rand(d, 6, seed=2), rand(d, 6, seed=3)
        case(f"embedding_{d}", "y = embedding(t, i)", lambda t, i: jnp.take(t, i, 0), {"t": rand(d, 5, 3), "i": i}, grad=not narrow)
        case(f"silu_{d}", "y = silu(x)", jax.nn.silu, {"x": x}, **kw)
        case(f"swiglu_{d}", "y = swiglu(x, z)", lambda x, z: jax.nn.silu(x) * z, {"x": x, "z": z}, **kw)
        case(f"gelu_{d}", "y = gelu(x)", lambda x: jax.nn.gelu(x, approximate=False), {"x": x}, **kw)
        case(f"gelu_tanh_{d}", "y = gelu(x) tanh=true", lambda x: jax.nn.gelu(x, approximate=True), {"x": x}, **kw)
        case(f"rms_norm_{d}", "y = rms_norm(x, g) eps=1e-05", lambda x, g: x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + jnp.asarray(1e-5, x.dtype)) * g,
             {"x": x, "g": g}, **kw)
        case(f"layer_norm_{d}", "y = layer_norm(x, g, b) eps=1e-05", lambda x, g, b: jax.nn.standardize(x, epsilon=1e-5) * g + b,
             {"x": x, "g": g, "b": b}, **{**kw, "abs_": kw["abs_"] * 3})

    big = arr([nan, inf, -inf, 0.0, -0.0, 100, -100, 20, -20, 1e-3, -1e-3, 6, -6])
    fine = big[3:]
    for n, f in {"silu": jax.nn.silu, "gelu": lambda x: jax.nn.gelu(x, approximate=False)}.items():
        case(f"{n}_edges", f"y = {n}(x)", f, {"x": fine}, abs_=1e-6)
        case(f"{n}_special", f"y = {n}(x)", f, {"x": big[:2]}, grad=False)
    case("gelu_tanh_edges", "y = gelu(x) tanh=true", lambda x: jax.nn.gelu(x, approximate=True), {"x": fine}, abs_=1e-6)

    def xent(x, l):
        lp = jax.nn.log_softmax(x.astype(jnp.promote_types(x.dtype, np.float32)))
        return jnp.where(l < 0, 0, -jnp.take_along_axis(lp, jnp.maximum(l, 0)[..., None], -1)[..., 0]).astype(lp.dtype)
    labels = arr([[0, 4], [-1, 2]], "i32")
    for d in FLOATS:
        case(f"cross_entropy_{d}", "y = cross_entropy(x, l)", xent, {"x": rand(d, 2, 2, 5), "l": labels}, grad=d in ("f32", "f64"),
             rel=1e-5 if d != "f64" else None, abs_=1e-6 if d != "f64" else 1e-13)
    case("cross_entropy_masked", "y = cross_entropy(x, l)", xent, {"x": arr([[0, -inf, 3, 80], [1, 1, 1, 1]]), "l": arr([2, 3], "i32")}, abs_=1e-6)

    def rope(x, at, base, interleaved):
        half = x.shape[-1] // 2
        a = at.astype(np.float64)[:, None] * base ** (-jnp.arange(half, dtype=np.float64) / half)
        c, s = jnp.cos(a)[None, :, None, :], jnp.sin(a)[None, :, None, :]
        x1, x2 = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
        y1, y2 = x1 * c - x2 * s, x2 * c + x1 * s
        y = jnp.stack([y1, y2], -1).reshape(x.shape) if interleaved else jnp.concatenate([y1, y2], -1)
        return y.astype(x.dtype)
    for d in FLOATS:
        case(f"rope_{d}", "y = rope(x, t)", lambda x, t: rope(x, t, 10000.0, False), {"x": rand(d, 2, 4, 2, 6), "t": arr([0, 1, 2, 3], "i32")}, abs_=REL[d], grad=d in ("f32", "f64"))
    case("rope_interleaved", "y = rope(x, t) base=500000 interleaved=true", lambda x, t: rope(x, t, 500000.0, True), {"x": rand("f64", 1, 4, 2, 6), "t": arr([7, 8, 9, 10], "i32")}, abs_=1e-13)

    def attention(q, k, v, causal=True, scale=None):
        o = jax.nn.dot_product_attention(q, k, v, is_causal=causal, scale=scale)
        n, m, d, s = q.shape[2], k.shape[2], q.shape[3], q.shape[1]
        logits = jnp.einsum("bsnd,btnd->bnst", q, jnp.repeat(k, n // m, 2)) * (scale or d ** -0.5)
        if causal:
            logits = jnp.where(jnp.tril(jnp.ones((s, s), bool)), logits, -jnp.inf)
        return o, jax.nn.logsumexp(logits, -1)
    for d in ("f32", "f64"):
        # dot_product_attention takes logits through f32, also of f64.
        kw = dict(rel=1e-5, abs_=1e-5, grad_abs=3e-5)
        q, k, v = rand(d, 2, 6, 4, 3), rand(d, 2, 6, 2, 3, seed=1), rand(d, 2, 6, 2, 3, seed=2)
        case(f"attention_{d}", "y, l = attention(q, k, v)", attention, {"q": q, "k": k, "v": v}, ret="y, l", **kw)
        case(f"attention_full_{d}", "y, l = attention(q, k, v) full=true scale=0.5", lambda q, k, v: attention(q, k, v, False, 0.5),
             {"q": q, "k": k, "v": v}, ret="y, l", **kw)
    at = jax.vmap(lambda c, x, t: jax.lax.dynamic_update_slice(c, x, (t, jnp.int32(0))))
    case("cache_update", "y = cache_update(c, x, t)", at, {"c": arr(np.arange(30.0).reshape(3, 5, 2)), "x": arr(-np.arange(12.0).reshape(3, 2, 2) - 1), "t": arr([0, 3, 2], "i32")}, exact=True, grad=False)
    case("attention_bf16", "y, l = attention(q, k, v)", lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
         {"q": rand("bf16", 1, 5, 2, 4), "k": rand("bf16", 1, 5, 2, 4, seed=1), "v": rand("bf16", 1, 5, 2, 4, seed=2)}, rel=2e-2, abs_=2e-2, grad=False)

    def recurrence(q, k, v, g, s, b=None):
        q, k = (jnp.repeat(x, v.shape[2] // q.shape[2], 2) for x in (q, k))

        def row(s, x):
            q, k, v, g, b = x
            s = s * jnp.exp(g if g.ndim == 3 else g[..., None])[..., None]
            u = v if b is None else b[..., None] * (v - jnp.einsum("bnkv,bnk->bnv", s, k))
            s = s + jnp.einsum("bnk,bnv->bnkv", k, u)
            return s, jnp.einsum("bnkv,bnk->bnv", s, q)

        rows = tuple(None if x is None else jnp.moveaxis(x, 1, 0) for x in (q, k, v, g, b))
        s, y = lax.scan(row, s, rows)
        return jnp.moveaxis(y, 0, 1), s
    for d in ("f32", "f64"):
        kw = dict(ret="y, l", rel=1e-5, abs_=1e-5, grad_rel=1e-5, grad_abs=1e-4) if d == "f32" else dict(ret="y, l", abs_=1e-12)
        q, k, v, s = rand(d, 2, 20, 2, 3, lo=-1, hi=1), rand(d, 2, 20, 2, 3, seed=1, lo=-0.5, hi=0.5), rand(d, 2, 20, 4, 2, seed=2), rand(d, 2, 4, 3, 2)
        b, head, channels = rand(d, 2, 20, 4, seed=3, lo=0, hi=1), rand(d, 2, 20, 4, seed=4, lo=-1, hi=0), rand(d, 2, 20, 4, 3, lo=-3, hi=0)
        for name, g in {"": head, "_channels": channels}.items():
            case(f"recurrence{name}_{d}", "y, l = recurrence(q, k, v, g, s)", recurrence, {"q": q, "k": k, "v": v, "g": g, "s": s}, **kw)
            case(f"recurrence_delta{name}_{d}", "y, l = recurrence(q, k, v, g, s, b) rates=true", recurrence, {"q": q, "k": k, "v": v, "g": g, "s": s, "b": b}, **kw)

    def convolution(x, w, s, *rest, silu=False):
        b, n = rest or (None, jnp.full(x.shape[0], x.shape[1]))
        rows, k = jnp.concatenate([s, x], 1), w.shape[1]
        y = lax.conv_general_dilated(rows, w.T[:, None], (1,), "VALID", dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=x.shape[2], precision="highest")
        y = y if b is None else y + b
        y = jax.nn.silu(y) if silu else y
        y = jnp.where(jnp.arange(x.shape[1])[None, :, None] < n[:, None, None], y, 0)
        return y, jax.vmap(lambda r, n: lax.dynamic_slice_in_dim(r, n, k - 1))(rows, n)
    for d in ("f32", "f64", "bf16"):
        kw = {"f32": dict(rel=1e-6, abs_=1e-6, grad_abs=1e-5), "f64": dict(abs_=1e-14), "bf16": dict(rel=2e-2, abs_=2e-2, grad=False)}[d]
        for k in (1, 2, 4, 8) if d == "f64" else (4,):
            x, w, s, b = rand(d, 3, 5, 3), rand(d, 3, k, seed=1), rand(d, 3, k - 1, 3, seed=2), rand(d, 3, seed=3)
            case(f"convolution_{k}_{d}", "y, l = causal_convolution(x, w, s)", convolution, {"x": x, "w": w, "s": s}, ret="y, l", **kw)
            case(f"convolution_silu_{k}_{d}", "y, l = causal_convolution(x, w, s, b, n) silu=true bias=true lengths=true",
                 lambda *a: convolution(*a, silu=True), {"x": x, "w": w, "s": s, "b": b, "n": arr([5, 0, 3], "i32")}, ret="y, l", **kw)

    from jax.example_libraries import optimizers

    def adamw(p, m, v, g, lr, step, scale, decay=0.0):
        _, update, params = optimizers.adam(lr, b1=0.9, b2=0.99, eps=1e-6)
        state = update(step - 1, g * scale, optimizers.pack_optimizer_state(optimizers.JoinPoint((p, m, v))))
        q, m2, v2 = optimizers.unpack_optimizer_state(state).subtree
        return q - (lr * decay * p).astype(p.dtype), m2, v2
    for d in ("f32", "f64"):
        args = {"p": rand(d, 2, 4), "m": rand(d, 2, 4, seed=1), "v": rand(d, 2, 4, seed=2, lo=0.1), "g": rand(d, 2, 4, seed=3),
                "lr": arr(0.01), "step": arr(3, "i32"), "scale": arr(0.5)}
        for decay in (0.0, 0.1):
            case(f"adamw_{d}_{decay}", f"y, n, w = adamw(p, m, v, g, lr, step, scale) b1=0.9 b2=0.99 eps=1e-06{f' weight_decay={decay}' if decay else ''}",
                 lambda *a: adamw(*a, decay=decay), args, ret="y, n, w", grad=False, rel=2e-6, abs_=1e-6)


# ------------------------------------------------------------------------ moe

@family
def moe():
    def route(x, b, k, score, renorm, scale):
        if score == "topk_softmax":
            v, i = lax.top_k(x + b, k)
            w = jax.nn.softmax(jnp.take_along_axis(x, i, 1), -1)
            s = jax.nn.softmax(x, -1)
        else:
            s = {"": lambda x: jax.nn.softmax(x, -1), "sigmoid": jax.nn.sigmoid, "sqrt_softplus": lambda x: jnp.sqrt(jax.nn.softplus(x))}[score](x)
            _, i = lax.top_k(s + b, k)
            w = jnp.take_along_axis(s, i, 1)
        if renorm:
            w = w / w.sum(1, keepdims=True)
        return w * scale, i, s
    for d in ("f32", "f64"):
        for score in ("", "sigmoid", "sqrt_softplus"):
            for renorm in (False, True):
                params = "top_k=3" + (f' score="{score}"' if score else "") + (" renormalize=true" if renorm else "") + " scale=2.5"
                case(f"router_{score or 'softmax'}_{int(renorm)}_{d}", f"w, i, s = router(x, b) {params}",
                     lambda x, b: route(x, lax.stop_gradient(b), 3, score, renorm, 2.5), {"x": rand(d, 4, 8), "b": rand(d, 8, lo=-0.1, hi=0.1)},
                     ret="w, i, s", abs_=REL[d])
    case("router_topk_softmax", 'w, i, s = router(x) top_k=2 score="topk_softmax"', lambda x: route(x, 0, 2, "topk_softmax", False, 1)[:2], {"x": rand("f64", 4, 8)},
         ret="w, i", abs_=1e-13)
    case("router_ties", "w, i, s = router(x) top_k=2", lambda x: route(x, 0, 2, "", False, 1), {"x": arr([[1, 2, 2, 2], [0, 0, 0, 0], [3, 1, 1, 3], [-inf, -inf, 5, -inf]])},
         ret="w, i, s", grad=False, abs_=1e-7)

    # The layer as a whole, since rows in expert order are not for other primitives to see.
    def layer(idx, x, w, k):
        flat = idx.reshape(-1)
        order = jnp.argsort(flat, stable=True)
        sizes = jnp.bincount(flat, length=k.shape[0]).astype(np.int32)
        rows = x[order // idx.shape[1]]
        y = lax.ragged_dot(rows, k, sizes, precision="highest") * w.reshape(-1)[order][:, None]
        out = jnp.zeros_like(y).at[order].set(y).reshape(*idx.shape, -1).sum(1)
        return out, sizes
    text = """r, drop, n, pad, demand = ep_prepare(idx) experts=4 axis="a"
        rows, rw = ep_dispatch(x, w, r) experts=4 axis="a"
        y = grouped_matmul(rows, k, r)
        rwb = broadcast_in_dim(rw) shape=[12,3] dims=[0]
        z = mul(y, rwb)
        out = ep_combine(z, r) experts=4 axis="a" """
    for d in ("f32", "f64"):
        for n, idx in {"mixed": [[0, 1], [2, 0], [1, 3], [3, 2], [0, 3], [0, 2]], "skewed": [[1, 3]] * 6, "one": [[2, 2]] * 6}.items():
            case(f"moe_{n}_{d}", text, layer, {"idx": arr(idx, "i32"), "x": rand(d, 6, 5), "w": rand(d, 6, 2, seed=1), "k": rand(d, 4, 5, 3, seed=2)},
                 ret="out, n", abs_=4 * REL[d])


if __name__ == "__main__":
    main()
