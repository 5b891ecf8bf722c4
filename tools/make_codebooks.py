#!/usr/bin/env python3
"""Writes src/quant/codebook_codes.inc from tests/data/quant/codebooks.json. Run from the root: python3 tools/make_codebooks.py

A grid entry is a short vector of a few distinct values. It is written as one number: digit j (2 or 3 bits, lowest first)
names the value of element j. src/quant/codebooks.h turns the numbers into packed bytes at compile time.
"""
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
# name in the JSON file, name in C++, bits per digit, values of the digits
GRIDS = [
    ("iq1s_grid", "kIq1sCodes", 2, [-1, 0, 1]),
    ("iq2xxs_grid", "kIq2xxsCodes", 2, [8, 25, 43]),
    ("iq2xs_grid", "kIq2xsCodes", 2, [8, 25, 43]),
    ("iq2s_grid", "kIq2sCodes", 2, [8, 25, 43]),
    ("iq3xxs_grid", "kIq3xxsCodes", 3, [4, 12, 20, 28, 36, 44, 52, 62]),
    ("iq3s_grid", "kIq3sCodes", 3, [1, 3, 5, 7, 9, 11, 13, 15]),
]
PER_LINE = 17


def code_of(entry, bits, values):
    elements = reversed(bytes.fromhex(entry))  # the text has the highest byte first
    code = 0
    for j, byte in enumerate(elements):
        code |= values.index(byte - 256 if byte > 127 else byte) << (bits * j)
    return code


def main():
    books = json.loads((ROOT / "tests/data/quant/codebooks.json").read_text())
    lines = ["// Written by tools/make_codebooks.py: one number per grid entry, see there and codebooks.h. Do not edit."]
    for json_name, cpp_name, bits, values in GRIDS:
        codes = [code_of(e, bits, values) for e in books[json_name]["entries"]]
        lines.append(f"inline constexpr uint16_t {cpp_name}[{len(codes)}] = {{")
        for at in range(0, len(codes), PER_LINE):
            lines.append("".join(f"0x{c:04x}," for c in codes[at:at + PER_LINE]))
        lines.append("};")
    (ROOT / "src/quant/codebook_codes.inc").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
