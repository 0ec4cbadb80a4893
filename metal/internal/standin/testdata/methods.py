#!/usr/bin/env python3
"""Writes methods.txt: Apple's types of the methods that native/standin.cpp names.

usage: methods.py OBJC2_METAL OBJC2_FOUNDATION METAL_CPP > methods.txt

The first two are the folders of the crates objc2-metal and objc2-foundation, whose Rust
declarations are generated from Apple's headers with all types. The third is the folder of
Apple's metal-cpp, as in the Python package pymetal-cpp, which names the selectors it sends.
Only names and types are written.
"""
import pathlib
import re
import sys

# The protocols and classes whose methods a class has, beside its own.
SUPER = {
    "MTLBuffer": ["MTLResource"],
    "MTLSharedEvent": ["MTLEvent"],
    "MTLComputeCommandEncoder": ["MTLCommandEncoder"],
    "MTLBlitCommandEncoder": ["MTLCommandEncoder"],
}
STRUCTS = {"MTLSize": "s", "NSOperatingSystemVersion": "s", "NSRange": "r", "MTLSizeAndAlign": "r"}


def letter(t):
    t = t.strip()
    if t == "":
        return "v"
    if t == "bool":
        return "b"
    if t in ("c_double", "CFTimeInterval", "f64"):
        return "d"
    if t in ("u8", "c_uchar"):
        return "c"
    if t in STRUCTS:
        return STRUCTS[t]
    if t.startswith(("&", "*", "Option<", "Retained<", "Result<", "NonNull<")):
        return "p"
    if re.fullmatch(r"NSUInteger|NSInteger|u64|usize|isize|MTL\w+", t):
        return "w"
    return "?"  # of a method that is not wanted


def arguments(text):
    """Splits at commas that are in no brackets."""
    parts, depth, part = [], 0, ""
    for c in text:
        depth += c in "<([" and 1 or 0
        depth -= c in ">)]" and 1 or 0
        if c == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += c
    return [p for p in map(str.strip, parts + [part]) if p]


def declared(folder):
    """Returns the types of all methods by file, kind and selector."""
    found = {}
    method = re.compile(
        r"#\[unsafe\(method\(([\w:]+)\)\)\](?:\s*(?:#\[[^\]]*\]|//[^\n]*))*\s*"
        r"(?:pub )?(?:unsafe )?fn \w+(?:<[^>]*>)?\s*\(([^;{]*?)\)\s*(?:->\s*([^;{]*?))?\s*(?:where[^;{]*)?;")
    for file in pathlib.Path(folder).glob("src/**/*.rs"):
        for name, args, result in method.findall(file.read_text()):
            parts = arguments(args)
            kind = "+"
            if parts and re.fullmatch(r"&(mut )?self|self: .*", parts[0]):
                kind, parts = "-", parts[1:]
            types = letter(result) + "".join(letter(p.split(":", 1)[1]) for p in parts)
            if name.endswith(":_"):  # the last argument is an error that the result takes over
                name, types = name[:-1], types + "p"
            found.setdefault((file.stem, kind, name), set()).add(types)
    return found


def main():
    metal, foundation, cpp = sys.argv[1:]
    all_types = {**declared(foundation), **declared(metal)}
    names = {}
    for file in pathlib.Path(cpp).glob("**/*.hpp"):
        for name in re.findall(r'"([\w:]+)"', file.read_text(errors="replace")):
            names[name] = True
    source = (pathlib.Path(__file__).parent.parent / "native" / "standin.cpp").read_text()
    wanted = [(c, "+" if k else "-", n) for k, c, n in re.findall(r'\b(class_)?method\("(\w+)", "([\w:]+)"', source)]
    for classes, body in re.findall(r"for \(const char\* c : \{([^}]*)\}\) \{([^}]*)\}", source):
        for c in re.findall(r"\w+", classes):
            wanted += [(c, "-", n) for n in re.findall(r'\bmethod\(c, "([\w:]+)"', body)]
    for classes in re.findall(r"((?:labelled<\w+>\(\)(?:, )?)+);", source):
        for c in re.findall(r"<(\w+)>", classes):
            c = {"Buffer": "MTLBuffer", "Heap": "MTLHeap", "Queue": "MTLCommandQueue", "CommandBuffer": "MTLCommandBuffer", "Event": "MTLSharedEvent"}[c]
            wanted.append((c, "-", "setLabel:"))
    print("# Written by methods.py from Apple's declarations: class, kind and selector, types.")
    for c, kind, name in sorted(set(wanted)):
        # Files are named after classes, and some hold those of others.
        own = [c] + SUPER.get(c, [])
        types = set().union(*(all_types.get((f, kind, name), set()) for f in own))
        if not types:
            types = set().union(*(t for (f, k, n), t in all_types.items() if (k, n) == (kind, name)))
        if len(types) != 1 or "?" in "".join(types):
            raise SystemExit(f"{c} {kind}{name} has the types {sorted(types)}, want one")
        if name not in names and name != "stringWithUTF8String:":  # for which metal-cpp has another
            raise SystemExit(f"metal-cpp has no selector {name}")
        print(f"{c} {kind}{name} {types.pop()}")


main()
