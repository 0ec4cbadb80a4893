"""Writes classes.json.gz: the characters that classes of Oniguruma and the step Punctuation match, of the package tokenizers.

    pip install tokenizers && python classes.py
"""

import gzip
import json

import tokenizers
from tokenizers import Regex, pre_tokenizers

NAMES = ["alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word", "xdigit"]
MORE = [r"\w", r"[\w]", r"\W", r"\d", r"\s", r"\h", r"\p{P}", r"\p{S}", r"\p{posix-punct}", r"\p{Uppercase_Letter}", r"\p{upper case letter}", r"\p{LC}", r"\p{han}", r"\p{Assigned}", r"\p{Unassigned}", r"\b."]
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and c != 10]


def matched(step, text):
    keep = set()
    for part, _ in step.pre_tokenize_str(text):
        keep.update(part)
    out = []
    for c in ALL:
        if chr(c) in keep:
            continue
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def main():
    out = {}
    for p in [p for n in NAMES for p in (f"[[:{n}:]]", f"[[:^{n}:]]", rf"\p{{{n}}}")] + MORE:
        text = "\n".join(map(chr, ALL)) if "b." in p else "".join(map(chr, ALL))
        out[p] = matched(pre_tokenizers.Split(Regex(p), "removed"), text)
    out["Punctuation"] = matched(pre_tokenizers.Punctuation("removed"), "".join(map(chr, ALL)))
    data = json.dumps({"tokenizers": tokenizers.__version__, "classes": out}, separators=(",", ":"))
    with open("classes.json.gz", "wb") as f, gzip.GzipFile("", "wb", 9, f, 0) as z:
        z.write(data.encode())


if __name__ == "__main__":
    main()
