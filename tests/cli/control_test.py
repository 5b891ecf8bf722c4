#!/usr/bin/env python3
"""Runs the strata program with the options that decide how it computes: threads, instructions, experts by a trace.

STRATA_BINARY names the program; without it the release build is used. The bundled model is what it runs.
"""
import json
import os
import sys
import unittest

from cli_test import GREEDY, STRATA, CommandTest, strata

SHORT = [*GREEDY, "--raw", "--max-tokens", "4", "Once upon a time"]


class KernelsTest(CommandTest):
    def here(self):
        """The kernels that this processor and this build have."""
        refused = {}
        for isa in ("avx512", "avx2", "generic"):
            ran = strata("run", "--isa", isa, "--json", *SHORT)
            if ran.code == 0:
                answer = json.loads(ran.out)
                self.assertEqual(answer["isa"], isa)
                self.assertIn(f"{isa} kernels: named by --isa", ran.err)
            else:
                refused[isa] = ran
        self.assertNotIn("generic", refused)
        return [isa for isa in ("avx512", "avx2", "generic") if isa not in refused], refused

    def test_kernels_are_chosen_by_name_or_the_best_ones_are_taken(self):
        here, refused = self.here()
        for isa in refused:
            self.fails(2, f"--isa {isa}: this processor or this build has no such kernels; choose auto", "run", "--isa", isa, "Hi")
        auto = self.runs("run", "--json", *SHORT)
        self.assertEqual(json.loads(auto.out)["isa"], here[0])
        self.assertIn(f"{here[0]} kernels: the best that this build and this processor have", auto.err)

    def test_an_evaluation_takes_them_too(self):
        text = self.put("text.txt", "Once upon a time there was a fox.\n")
        self.assertEqual(json.loads(self.runs("eval", "--isa", "generic", "--json", "--text", text).out)["isa"], "generic")
        self.fails(2, "--isa generic: --device plain has no kernels", "eval", "--isa", "generic", "--device", "plain", "--text", text)

    def test_kernels_that_cannot_be_are_refused(self):
        self.fails(2, "option --isa: 'neon' is none of auto, generic, avx2, avx512", "run", "--isa", "neon", "Hi")
        self.fails(2, "--isa avx2: --device plain has no kernels to choose from; leave one of them out",
                   "run", "--isa", "avx2", "--device", "plain", "Hi")
        plain = json.loads(self.runs("run", "--isa", "auto", "--device", "plain", "--json", *SHORT).out)
        self.assertEqual(plain["isa"], "none")


class ThreadsTest(CommandTest):
    def test_the_plan_says_how_many_threads_compute_and_why(self):
        chosen = self.runs("run", "--json", *SHORT)
        threads = json.loads(chosen.out)["plan"]["threads"]
        self.assertRegex(chosen.err, rf"chosen: {threads} threads?: \d+ cores?.*, limit ")
        self.assertEqual(chosen.err.count("limit "), 1)
        named = self.runs("run", "--json", "--threads", "1", *SHORT)
        self.assertEqual(json.loads(named.out)["plan"]["threads"], 1)
        self.assertNotIn("limit ", named.err)
        self.assertEqual(json.loads(named.out)["logits_hash"], json.loads(chosen.out)["logits_hash"])

    def test_the_affinity_mask_counts(self):
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(before)})  # the program inherits it
        self.addCleanup(os.sched_setaffinity, 0, before)
        self.assertIn("chosen: 1 thread: 1 core, limit", self.runs("run", *SHORT).err)

    def test_more_threads_than_processors_are_warned_of(self):
        many = len(os.sched_getaffinity(0)) + 1
        self.assertIn(f"warning: --threads {many} on ", self.runs("run", "--threads", str(many), *SHORT).err)


if __name__ == "__main__":
    if not os.access(STRATA, os.X_OK):
        sys.exit(f"{STRATA} is not there; build it, or name the program in STRATA_BINARY")
    unittest.main()
