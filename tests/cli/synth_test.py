#!/usr/bin/env python3
"""Runs strata synth as its users do: files that the other commands read, refusals, a full disk, Ctrl-C.

STRATA_BINARY names the program; without it the release build is used.
"""
import json
import os
import resource
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cli_test  # noqa: E402: found through the path above

SMALL = ["--preset", "nano", "--layers", "4", "--ngram-rows", "4k", "experts=16", "draft-experts=16", "vocab=1k"]


class SynthTest(cli_test.CommandTest):
    def path(self, name="m.gguf"):
        return os.path.join(self.folder.name, name)

    def test_a_file_is_written_that_every_command_reads(self):
        ran = self.runs("synth", self.path(), *SMALL)
        self.assertRegex(ran.out, r"^m\.gguf: [\d.]+ MB in [\d.]+ s \([\d.]+ [kMG]B/s\), [\d.]+ [kM]B of weights read for one token\n$")
        self.assertEqual(os.listdir(self.folder.name), ["m.gguf"])
        info = json.loads(self.runs("info", "--json", self.path()).out)
        self.assertTrue(info["runnable"])
        self.assertEqual(info["bytes"], os.path.getsize(self.path()))
        self.assertEqual(info["notes"], [])
        self.assertEqual(info["keys"]["qwen4exp.block_count"], 4)
        answer = json.loads(self.runs("run", "--model", self.path(), "--temperature", "1", "--seed", "3", "--max-tokens", "12", "--json", "Hello there").out)
        self.assertIn(answer["finish"], ("length", "stop"))
        self.assertTrue(all(lp <= 0 for lp in answer["logprobs"]))
        words = "The fox went over the hill,\n\n123 times."
        ids = self.runs("tokenize", "--model", self.path(), "--ids", words).out
        self.assertLess(len(ids.split()), 0.7 * len(words), "letters merge")
        self.assertEqual(self.runs("tokenize", "--model", self.path(), "--decode", ids).out, words + "\n")
        scored = json.loads(self.runs("eval", "--model", self.path(), "--json", "--text", self.put("t.txt", words * 4)).out)
        self.assertLess(scored["mean_nll"], 20)

    def test_a_chat_becomes_a_prompt(self):
        self.runs("synth", self.path(), *SMALL)
        request = self.put("r.json", json.dumps({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]}))
        chat = json.loads(self.runs("tokenize", "--model", self.path(), "--json", "--chat", request).out)
        self.assertEqual(chat["text"], "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n")
        first = 1000 - 33 - 1
        self.assertEqual([i for i in chat["ids"] if i >= first], [first + k for k in (1, 2, 1, 2, 1, 24)])

    def test_options_and_keys_reach_the_file(self):
        ran = self.runs("synth", self.path(), *SMALL, "--mtp", "--split", "--router-skew", "0.5", "--seed", "9", "--json", "type.experts-in=IQ2_S,Q2_0")
        out = json.loads(ran.out)
        self.assertEqual([os.path.basename(f) for f in out["files"]], ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"])
        self.assertEqual(out["bytes"], sum(map(os.path.getsize, out["files"])))
        self.assertEqual((out["seed"], out["router_skew"], out["keys"]["layers"], out["keys"]["type.experts-in"]), (9, 0.5, "4", "IQ2_S,Q2_0"))
        info = json.loads(self.runs("info", "--json", out["files"][1]).out)
        self.assertEqual(info["bytes_per_token"], out["bytes_per_token"])
        self.assertEqual(info["keys"]["qwen4exp.nextn_predict_layers"], 1)
        types = {t["name"]: t["type"] for t in info["tensors"]}
        self.assertEqual([types[f"blk.{i}.ffn_up_exps.weight"] for i in range(5)], ["IQ2_S", "Q2_0", "IQ2_S", "Q2_0", "IQ2_S"])

    def test_what_cannot_be_made_is_named(self):
        self.fails(2, "strata synth needs OUT.gguf", "synth")
        self.fails(2, "no file is named before layers=4", "synth", "layers=4")
        self.fails(2, "there is no key 'layer'; did you mean layers?", "synth", self.path(), "layer=4")
        self.fails(2, "option --layers: 0 is outside 1 to 511", "synth", self.path(), "--layers", "0")
        self.fails(2, "layers is given twice", "synth", self.path(), "--layers", "3", "layers=2")
        self.fails(2, "experts is given twice", "synth", self.path(), "experts=8", "experts=16")
        self.fails(2, "option --ngram-rows is 'many', expected a whole number", "synth", self.path(), "--ngram-rows", "many")
        self.fails(2, "option --preset: 'huge' is none of real, gsq-iq3_xxs, nano", "synth", self.path(), "--preset", "huge")
        self.fails(2, "heads=5 is no multiple of kv-heads=2", "synth", self.path(), "heads=5")
        self.fails(2, "blk.0.ffn_down_exps.weight as IQ3_S", "synth", self.path(), "type.experts-out=IQ3_S")
        self.fails(3, "is not a directory", "synth", self.path("missing/m.gguf"), *SMALL)
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_a_disk_without_room_is_refused_before_writing(self):
        ran = self.fails(3, "m.gguf needs ", "synth", self.path(), "--layers", "511", "experts=64k")
        self.assertIn(" free; free space, write elsewhere", ran.err)
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_a_file_that_exists_is_kept_unless_told_otherwise(self):
        self.put("m.gguf", "somebody's model")
        self.fails(2, "m.gguf exists already; choose another name, or replace it with --force", "synth", self.path(), *SMALL)
        with open(self.path(), encoding="utf-8") as file:
            self.assertEqual(file.read(), "somebody's model")
        self.runs("synth", self.path(), *SMALL, "--force")
        self.runs("info", self.path())
        self.put("s-00002-of-00002.gguf", "")
        self.fails(2, "s-00002-of-00002.gguf exists already", "synth", self.path("s.gguf"), *SMALL, "--split")

    def test_a_write_that_fails_leaves_nothing_behind(self):
        limit = 2_000_000
        done = subprocess.run([cli_test.STRATA, "synth", self.path(), *SMALL], capture_output=True, timeout=60,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(b"m.gguf: larger than the system allows a file to be", done.stderr.splitlines()[-1])
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_an_interrupt_removes_what_was_written(self):
        # Large enough that it cannot be complete before the signal; refused where the disk has no room for it.
        command = [cli_test.STRATA, "synth", self.path(), "--layers", "4", "--ngram-rows", "4M"]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first = running.stderr.readline()
        if b" free; free space" in first:
            running.communicate(timeout=60)
            print("absent: the disk has no room for 6 GB", flush=True)
            os._exit(77)  # each test is a process of its own; unittest would report a skip as passed
        self.assertIn(b"strata: writing: ", first)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130, err)
        self.assertTrue(err.endswith(b"strata: interrupted; nothing is left of the file\n"), err)
        self.assertEqual(out, b"")
        self.assertEqual(os.listdir(self.folder.name), [])


if __name__ == "__main__":
    if not os.access(cli_test.STRATA, os.X_OK):
        sys.exit(f"{cli_test.STRATA} is not there; build it, or name the program in STRATA_BINARY")
    unittest.main()
