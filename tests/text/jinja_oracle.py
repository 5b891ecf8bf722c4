#!/usr/bin/env python3
"""Renders the cases of tests/data/templates/cases.jsonl with jinja2, as model templates are rendered. A case names its
template in full, in a file, or in a model file (the bundled one).

Prints one JSON object per case and line: {"text": ...} or {"error": ...}. With --write it stores the outcomes in the file instead.
Exits with 77 where jinja2 is not installed.
"""
import datetime
import json
import pathlib
import struct
import sys

try:
    import jinja2
    import jinja2.sandbox
except ImportError:
    sys.exit(77)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = datetime.datetime(2024, 7, 26, 15, 4, 5).strftime
    return env


def template_of_model(path):
    """The value of tokenizer.chat_template in a GGUF file, which is a string."""
    with open(path, "rb") as file:
        def text():
            return file.read(struct.unpack("<Q", file.read(8))[0])

        def skip(kind, count):
            for _ in range(count if kind == 8 else 0):
                text()
            file.seek(0 if kind == 8 else count * [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8][kind], 1)

        n_keys = struct.unpack("<4sIQQ", file.read(24))[3]
        for _ in range(n_keys):
            name, kind = text(), struct.unpack("<I", file.read(4))[0]
            if name == b"tokenizer.chat_template":
                return text().decode()
            skip(*(struct.unpack("<IQ", file.read(12)) if kind == 9 else (kind, 1)))
    raise KeyError(f"{path} has no chat template")


def source_of(folder, case):
    if "template" in case:
        return case["template"]
    path = folder / case["file"]
    return template_of_model(path) if path.suffix == ".gguf" else path.read_text()


def outcome(env, folder, case):
    try:
        return {"text": env.from_string(source_of(folder, case)).render(**case.get("inputs", {}))}
    except Exception as e:  # any failure of a template is an outcome
        return {"error": f"{type(e).__name__}: {e}"}


def main():
    arguments = sys.argv[1:]
    write = "--write" in arguments
    path = pathlib.Path(next(a for a in arguments if a != "--write"))
    cases = [json.loads(line) for line in path.read_text().splitlines()]
    env = environment()
    for case in cases:
        result = outcome(env, path.parent, case)
        if write:
            case.pop("text", None), case.pop("error", None)
            case.update(result)
        else:
            print(json.dumps(result, ensure_ascii=False))
    if write:
        path.write_text("".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases))


main()
