#!/usr/bin/env python3
"""Runs strata bench as its users do: the list, the table, JSON, Markdown, refusals, Ctrl-C.

STRATA_BINARY names the program; without it the release build is used.
"""
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cli_test  # noqa: E402: found through the path above

QUICK = ["bench", "kernels", "--cell-time", "1", "--threads", "2"]
ROWS = [1, 2, 4, 8, 32, 128]


class BenchTest(cli_test.CommandTest):
    def test_alone_it_lists_what_can_be_measured(self):
        ran = self.runs("bench")
        self.assertRegex(ran.out, r"(?m)^strata bench kernels  \w+")
        self.assertEqual(ran.err, "")
        self.assertIn("docs/benchmarks.md", self.runs("bench", "--help").out)

    def test_json_holds_every_cell_and_the_limits(self):
        out = json.loads(self.runs(*QUICK, "--format", "Q4_K", "--json").out)
        self.assertEqual(out["bench"], "kernels")
        self.assertEqual([r["threads"] for r in out["rates"]], [1, 2])
        self.assertEqual([(c["rows"], c["threads"]) for c in out["cells"]], [(r, t) for r in ROWS for t in (1, 2)])
        for cell in out["cells"]:
            self.assertEqual((cell["name"], cell["shape"], cell["bytes"]), ("Q4_K", "2560 x 640", 2560 * 640 * 144 / 256))
            self.assertGreater(cell["us"], 0)
            self.assertAlmostEqual(cell["gb_per_s"], cell["bytes"] / cell["us"] * 1e-3, delta=1e-6 * cell["gb_per_s"])
            self.assertIn(cell["limit"], ("read", "int8"))

    def test_the_table_has_a_line_for_each_cell_and_fits_a_terminal(self):
        ran = self.runs(*QUICK, "--format", "iq3_xxs")
        lines = ran.out.splitlines()
        self.assertTrue(all(len(line) <= 120 for line in lines), ran)
        self.assertEqual(len([line for line in lines if re.match(r"IQ3_XXS +2560 x 640 +\d+ +[12] ", line)]), 2 * len(ROWS))
        self.assertIn("read GB/s", ran.out)

    def test_without_a_format_all_kernels_are_measured(self):
        out = json.loads(self.runs(*QUICK, "--json").out)
        self.assertEqual({c["group"] for c in out["cells"]}, {"weights", "mixers"})

    def test_markdown_is_a_table_of_the_formats(self):
        out = self.runs(*QUICK, "--format", "F32", "--markdown").out
        rows = [line for line in out.splitlines() if line.startswith("|")]
        self.assertEqual(len([row for row in rows if row.startswith("| F32 |")]), 2)
        self.assertEqual({row.count("|") for row in rows if row.startswith("| F32 |")}, {10})

    def test_wrong_requests_are_named(self):
        self.fails(2, "option --format: there is no format 'IQ3_XXL'; did you mean IQ3_XXS?", "bench", "kernels", "--format", "IQ3_XXL")
        self.fails(2, "there is no format 'zebra'; choose one of F32, F16", "bench", "kernels", "--format", "zebra")
        self.fails(2, "there is no bench 'kernel'; choose one of: kernels", "bench", "kernel")
        self.fails(2, "--json", "bench", "kernels", "--json", "--markdown")
        self.fails(2, "option --cell-time: 0 is outside 1 to 10000", "bench", "kernels", "--cell-time", "0")
        self.fails(2, "option --isa: 'sse' is none of auto", "bench", "kernels", "--isa", "sse")
        self.fails(2, "one thing at a time", "bench", "kernels", "other")

    def test_an_interrupt_ends_it_cleanly(self):
        with subprocess.Popen([cli_test.STRATA, "bench", "kernels"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertEqual(out, b"")
        self.assertTrue(err.decode().splitlines()[-1].startswith("strata: interrupted"), err)


if __name__ == "__main__":
    unittest.main()
