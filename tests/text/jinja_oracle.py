#!/usr/bin/env python3
"""Renders the cases of tests/data/templates/cases.jsonl with jinja2, as model templates are rendered.

Prints one JSON object per case and line: {"text": ...} or {"error": ...}. With --write it stores the outcomes in the file instead.
Exits with 77 where jinja2 is not installed.
"""
import datetime
import json
import pathlib
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


def outcome(env, folder, case):
    source = case["template"] if "template" in case else (folder / case["file"]).read_text()
    try:
        return {"text": env.from_string(source).render(**case.get("inputs", {}))}
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
