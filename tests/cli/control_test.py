#!/usr/bin/env python3
"""Runs the strata program with the options that decide how it computes: threads, instructions, experts by a trace.

STRATA_BINARY names the program; without it the release build is used. The bundled model is what it runs.
"""
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import unittest

from cli_test import DRAFT, GREEDY, MODEL, STRATA, CommandTest, strata

SHORT = [*GREEDY, "--raw", "--max-tokens", "4", "Once upon a time"]


class KernelsTest(CommandTest):
    def here(self):
        """The kernels that this processor and this build have."""
        refused = {}
        for isa in ("avx512", "avxvnni", "avx2", "generic"):
            ran = strata("run", "--isa", isa, "--json", *SHORT)
            if ran.code == 0:
                answer = json.loads(ran.out)
                self.assertEqual(answer["isa"], isa)
                self.assertIn(f"{isa} kernels: named by --isa", ran.err)
            else:
                refused[isa] = ran
        self.assertNotIn("generic", refused)
        return [isa for isa in ("avx512", "avxvnni", "avx2", "generic") if isa not in refused], refused

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
        self.fails(2, "option --isa: 'neon' is none of auto, generic, avx2, avxvnni, avx512", "run", "--isa", "neon", "Hi")
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


class RoutingTest(CommandTest):
    PROMPT = [*GREEDY, "--json", "--max-tokens", "8", "Tell me about a fox."]

    def setUp(self):
        super().setUp()
        self.trace = os.path.join(self.folder.name, "fox.trace")

    def record(self):
        ran = self.runs("run", "--trace-routing", self.trace, *self.PROMPT)
        with open(self.trace, "rb") as file:
            return json.loads(ran.out), ran, file.read()

    def test_a_recorded_run_is_replayed_to_the_bit(self):
        answer, ran, trace = self.record()
        tokens, layers = struct.unpack_from("<QI", trace, 8)
        self.assertEqual(tokens, answer["timings"]["prompt_tokens"] + 7)
        self.assertIn(f"strata: experts of {tokens} tokens written to {self.trace}\n", ran.err)
        again = json.loads(self.runs("run", "--replay-routing", self.trace, *self.PROMPT).out)
        drafted = json.loads(self.runs("run", "--mtp", DRAFT, "--replay-routing", self.trace, *self.PROMPT).out)
        for other in (again, drafted):
            self.assertEqual((other["ids"], other["logits_hash"]), (answer["ids"], answer["logits_hash"]))

    def test_another_trace_changes_the_work(self):
        answer, _, trace = self.record()
        tokens, layers = struct.unpack_from("<QI", trace, 8)
        experts, used = struct.unpack_from("<II", trace, 24)
        ids = struct.pack(f"<{used}H", *range(used)) * (layers * tokens)
        path = self.put("first.trace", trace[:24 + 8 * layers] + ids)
        forced = json.loads(self.runs("run", "--replay-routing", path, *self.PROMPT).out)
        self.assertNotEqual(forced["logits_hash"], answer["logits_hash"])

    def test_a_trace_that_does_not_fit_is_named(self):
        _, _, trace = self.record()
        wrong = lambda name, content: self.put(name, content)
        for code, message, path in [
                (3, "not a routing trace; record one with strata run --trace-routing FILE", MODEL),
                (3, "no such file", "missing.trace"),
                (3, "the file is empty", wrong("empty.trace", b"")),
                (3, "bytes of ids are there", wrong("cut.trace", trace[:-2])),
                (3, "of the routing trace uses", wrong("shape.trace", trace[:28] + struct.pack("<I", 0) + trace[32:])),
                (3, "the routing trace has 1 layer, the model", wrong("one.trace", b"STRRTR01" + struct.pack("<QIIII", 0, 1, 0, 4, 2)))]:
            with self.subTest(message):
                ran = self.fails(code, message, "run", "--replay-routing", path, *self.PROMPT)
                self.assertEqual(ran.out, "")
        self.fails(2, "--trace-routing and --replay-routing cannot be used together", "run", "--trace-routing", "a", "--replay-routing", "b", "Hi")

    def test_a_trace_that_ends_early_ends_the_run(self):
        _, _, trace = self.record()
        tokens, layers = struct.unpack_from("<QI", trace, 8)
        head = 24 + 8 * layers
        size = (len(trace) - head) // tokens
        cut = lambda n: self.put("short.trace", trace[:8] + struct.pack("<Q", n) + trace[16:head + n * size])
        self.fails(2, f"lasts for {tokens - 3} tokens, prompt and answer need {tokens - 2} by now; shorten",
                   "run", "--replay-routing", cut(tokens - 3), *self.PROMPT)
        ran = self.fails(2, "lasts for 2 tokens, prompt and answer need", "run", "--replay-routing", cut(2), *self.PROMPT)
        self.assertEqual(ran.out, "")

    def test_a_trace_that_cannot_be_written_is_named(self):
        self.fails(3, "no/such", "run", "--trace-routing", "no/such/folder/t.trace", *self.PROMPT)
        self.fails(2, "is a device", "run", "--trace-routing", "/dev/full", *self.PROMPT)

        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))
        full = subprocess.run([STRATA, "run", "--trace-routing", self.trace, *self.PROMPT], capture_output=True, preexec_fn=small_files, timeout=100)
        self.assertEqual(full.returncode, 3, full.stderr)
        self.assertIn(self.trace.encode(), full.stderr.splitlines()[-1])
        self.assertEqual(os.listdir(self.folder.name), [], "nothing is left behind")


if __name__ == "__main__":
    if not os.access(STRATA, os.X_OK):
        sys.exit(f"{STRATA} is not there; build it, or name the program in STRATA_BINARY")
    unittest.main()
