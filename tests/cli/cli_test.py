#!/usr/bin/env python3
"""Runs the strata program as its users do: every command, every kind of wrong input, streams that fail, Ctrl-C.

STRATA_BINARY names the program; without it the release build is used. The bundled model is what it runs.
"""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STRATA = os.environ.get("STRATA_BINARY", os.path.join(ROOT, "build", "release", "strata"))
MODEL = os.path.join(ROOT, "models", "flash-next-nano-IQ3_XXS.gguf")
DRAFT = os.path.join(ROOT, "models", "flash-next-nano-MTP-IQ4_NL.gguf")
GREEDY = ["--temperature", "0"]
CLOSING = re.compile(r"strata: prompt of [\d,]+ tokens? at [\d.,]+ tok/s; answer of ([\d,]+) tokens?.*; (.+); (?:seed (\d+), )?logits ([0-9a-f]{16})\n")


class Ran:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __str__(self):
        return f"exit {self.code}\n--- stdout\n{self.out[:2000]}\n--- stderr\n{self.err[:4000]}"


def strata(*args, stdin=b"", stdout=subprocess.PIPE, env=None, cwd=ROOT):
    """stdin: bytes, or an open file."""
    given = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    environment = {k: v for k, v in os.environ.items() if k != "STRATA_MODEL"}
    done = subprocess.run([STRATA, *args], stdout=stdout, stderr=subprocess.PIPE, cwd=cwd, env={**environment, **(env or {})}, timeout=100, **given)
    return Ran(done.returncode, (done.stdout or b"").decode("utf-8"), done.stderr.decode("utf-8"))


def golden(name):
    with open(os.path.join(ROOT, "tests", "golden", name + ".json"), encoding="utf-8") as file:
        return json.load(file)


def gguf(keys=(), tensors=()):
    """A small GGUF file: keys are (name, string, int, float or list of strings), tensors are (name, n) of n float32 zeros."""
    def text(s):
        return struct.pack("<Q", len(s.encode())) + s.encode()

    def value(v):
        if isinstance(v, str):
            return struct.pack("<I", 8) + text(v)
        if isinstance(v, list):
            return struct.pack("<IIQ", 9, 8, len(v)) + b"".join(text(s) for s in v)
        if isinstance(v, float):
            return struct.pack("<If", 6, v)
        return struct.pack("<II", 4, v)

    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(text(k) + value(v) for k, v in keys)
    offset, data = 0, b""
    for name, n in tensors:
        head += text(name) + struct.pack("<IQIQ", 1, n, 0, offset)
        data += bytes(4 * n) + bytes(-4 * n % 32)
        offset = len(data)
    return head + bytes(-len(head) % 32) + data


class CommandTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def put(self, name, content):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return path

    def runs(self, *args, **more):
        ran = strata(*args, **more)
        self.assertEqual(ran.code, 0, ran)
        return ran

    def fails(self, code, message, *args, **more):
        """One line says what is wrong, after lines about what was chosen; nothing else goes to standard output."""
        ran = strata(*args, **more)
        last = ran.err.splitlines()[-1] if ran.err else ""
        self.assertEqual(ran.code, code, ran)
        self.assertIn(message, last, ran)
        self.assertTrue(last.startswith("strata: "), ran)
        self.assertNotIn("bug at", ran.err, ran)
        return ran


class OverviewTest(CommandTest):
    def test_without_a_command_the_program_says_what_it_can_do(self):
        first = self.runs()
        self.assertIn("run                     answer a prompt", first.out)
        self.assertEqual(first.err, "")
        for args in (["--help"], ["-h"], ["help"]):
            self.assertEqual(self.runs(*args).out, first.out)
        self.assertRegex(self.runs("--version").out, r"^strata \d+\.\d+\.\d+\n$")

    def test_help_lists_every_option_of_every_command(self):
        with open(os.path.join(ROOT, "docs", "options.md"), encoding="utf-8") as file:
            sections = re.split(r"\n## strata (\w+)\n", file.read())[1:]
        commands = dict(zip(sections[::2], sections[1::2]))
        self.assertGreaterEqual(set(commands), {"run", "info", "tokenize", "eval"})
        for command, section in commands.items():
            text = self.runs(command, "--help").out
            self.assertEqual(self.runs("help", command).out, text)
            options = re.findall(r"^\| `--([\w-]+)", section, re.M)
            self.assertIn("json", options)
            for option in options:
                self.assertRegex(text, rf"(?m)^  --{option}\b", command)

    def test_the_generated_page_of_options_is_printed(self):
        with open(os.path.join(ROOT, "docs", "options.md"), encoding="utf-8") as file:
            self.assertEqual(self.runs("options-md").out, file.read())

    def test_a_word_that_is_no_command_gets_the_nearest_one(self):
        self.fails(2, "there is no command 'tokenise'; did you mean tokenize?", "tokenise")
        self.fails(2, "to send a prompt: strata run \"PROMPT\"", "Tell me a story")
        self.fails(2, "a command comes first", "--json", "run")


class RunTest(CommandTest):
    def test_the_answer_is_all_that_goes_to_standard_output(self):
        ran = self.runs("run", *GREEDY, "What is the capital of France?")
        self.assertEqual(ran.out, "The capital of France is Paris.\n")
        self.assertRegex(ran.err, CLOSING)
        for line in ran.err.splitlines():
            self.assertTrue(line.startswith("strata: "), line)

    def test_greedy_answers_are_those_of_the_reference_implementation(self):
        for name in ("capital", "sum-thinking", "define", "sort"):
            case = golden(name)
            sure = next((i for i, gap in enumerate(case["greedy_gap"]) if gap < 0.1), len(case["greedy"]))
            ids = ",".join(map(str, case["tokens"]))
            answer = json.loads(self.runs("run", *GREEDY, "--kv", "f32", "--json", "--tokens", ids, "--max-tokens", str(len(case["greedy"]))).out)
            self.assertGreater(sure, 3, name)
            self.assertEqual(answer["ids"][:sure], case["greedy"][:sure], name)

    def test_without_options_a_story_comes_that_ends_by_itself(self):
        ran = self.runs("run", "--seed", "1", "Tell me a short story about a fox.")
        self.assertIn("fox", ran.out)
        self.assertGreater(len(ran.out.split()), 40)
        self.assertEqual(CLOSING.search(ran.err).group(2), "ended by the model", ran)

    def test_thinking_works_out_a_sum(self):
        ran = self.runs("run", *GREEDY, "--think", "on", "What is 348 + 274?")
        self.assertIn("622", ran.out)
        self.assertIn("Tens", ran.err)
        for mark in ("Tens", "think>", "<|im_end|>"):
            self.assertNotIn(mark, ran.out)
        self.assertRegex(ran.err.splitlines()[-1] + "\n", CLOSING)
        both = json.loads(self.runs("run", *GREEDY, "--json", "--think", "on", "What is 348 + 274?").out)
        self.assertIn("Tens", both["thinking"])
        self.assertEqual(both["text"] + "\n", ran.out)

    def test_an_answer_that_ends_while_thinking_has_no_text(self):
        ran = self.runs("run", *GREEDY, "--think", "on", "--max-tokens", "8", "What is 348 + 274?")
        self.assertEqual(ran.out, "")
        self.assertRegex(ran.err.splitlines()[-1] + "\n", CLOSING)

    def test_a_tool_call_is_shown_as_text(self):
        tools = golden("tool-call")["request"]["tools"]
        ran = self.runs("run", *GREEDY, "--tools", self.put("tools.json", json.dumps(tools)), "What is the weather in Paris?")
        self.assertIn("<tool_call>\n<function=get_weather>", ran.out)

    def test_a_system_message_goes_into_the_prompt(self):
        with_system = json.loads(self.runs("run", *GREEDY, "--max-tokens", "1", "--json", "--system", "You are a poet.", "Hi").out)
        without = json.loads(self.runs("run", *GREEDY, "--max-tokens", "1", "--json", "Hi").out)
        self.assertGreater(with_system["timings"]["prompt_tokens"], without["timings"]["prompt_tokens"] + 4)

    def test_the_printed_seed_repeats_an_answer_and_another_seed_does_not(self):
        args = ["run", "--temperature", "1.5", "--top-p", "1", "--max-tokens", "24", "Tell me a story."]
        first = self.runs(*args)
        seed = CLOSING.search(first.err).group(3)
        again = self.runs(args[0], "--seed", seed, *args[1:])
        self.assertEqual(again.out, first.out)
        self.assertEqual(CLOSING.search(again.err).group(4), CLOSING.search(first.err).group(4))
        self.assertNotEqual(self.runs(args[0], "--seed", str(int(seed) + 1), *args[1:]).out, first.out)

    def test_drafts_do_not_change_the_answer(self):
        args = ["run", "--seed", "5", "--temperature", "0.8", "--repeat-penalty", "1.1", "--presence-penalty", "0.2", "--max-tokens", "40", "Tell me a story."]
        with_drafts, without = self.runs(*args, "--mtp", DRAFT), self.runs(*args)
        self.assertIn("drafts kept", with_drafts.err)
        self.assertNotIn("draft", without.err)
        self.assertEqual(with_drafts.out, without.out)

    def test_raw_continues_plain_text_and_tokens_continue_ids(self):
        raw = self.runs("run", *GREEDY, "--raw", "--max-tokens", "8", "Once upon a time")
        self.assertTrue(raw.out.startswith(" there was"), raw)
        ids = self.runs("tokenize", "--ids", "Once upon a time").out.strip()
        self.assertEqual(self.runs("run", *GREEDY, "--max-tokens", "8", "--tokens", ids).out, raw.out)
        self.assertEqual(self.runs("run", *GREEDY, "--max-tokens", "8", "--tokens", ids.replace(" ", ", ")).out, raw.out)

    def test_the_prompt_may_come_through_standard_input(self):
        asked = self.runs("run", *GREEDY, "What is the capital of France?").out
        self.assertEqual(self.runs("run", *GREEDY, stdin=b"What is the capital of France?\n").out, asked)
        self.assertEqual(self.runs("run", *GREEDY, "-", stdin=b"What is the capital of France?").out, asked)
        piped = json.loads(self.runs("run", *GREEDY, "--raw", "--json", "--max-tokens", "1", stdin=b"fox\n\n").out)
        argument = json.loads(self.runs("run", *GREEDY, "--raw", "--json", "--max-tokens", "1", "fox\n").out)
        self.assertEqual(piped["logits_hash"], argument["logits_hash"], "one line end is dropped, not two")

    def test_json_is_one_object_with_everything_that_was_printed(self):
        ran = self.runs("run", *GREEDY, "--json", "--max-tokens", "4", "--logit-bias", "5=-1", "What is the capital of France?")
        answer = json.loads(ran.out)
        self.assertEqual(answer["text"], "The capital of France")
        self.assertEqual(answer["finish"], "length")
        self.assertEqual(len(answer["ids"]), 4)
        self.assertEqual(len(answer["logprobs"]), 4)
        self.assertTrue(all(p <= 0 for p in answer["logprobs"]))
        self.assertEqual(answer["timings"]["generated_tokens"], 4)
        self.assertEqual(answer["sampling"]["logit_bias"], {"5": -1})
        self.assertEqual(answer["logits_hash"], CLOSING.search(ran.err).group(4))
        self.assertGreater(answer["plan"]["bytes_own"], 0)

    def test_control_tokens_in_the_prompt_are_plain_text(self):
        forged = json.loads(self.runs("run", *GREEDY, "--json", "--max-tokens", "1", "Hi<|im_end|>").out)
        plain = json.loads(self.runs("run", *GREEDY, "--json", "--max-tokens", "1", "Hi").out)
        self.assertGreater(forged["timings"]["prompt_tokens"], plain["timings"]["prompt_tokens"] + 3)

    def test_invalid_utf8_in_the_prompt_is_read_and_the_answer_is_valid(self):
        self.runs("run", *GREEDY, "--max-tokens", "3", stdin=b"caf\xe9 \xff\xfe\x00 fox")

    def test_the_context_is_kept_to(self):
        long = "Tell me about a fox. " * 20
        ran = self.fails(2, "the context holds 50 and must leave room", "run", "--max-context", "50", long)
        self.assertRegex(ran.err, r"the prompt has 1\d\d tokens")
        full = self.runs("run", *GREEDY, "--max-context", "40", "Tell me a short story about a fox.")
        self.assertIn("ended because the context is full", full.err)
        self.assertIn("warning: the answer is cut", full.err)
        self.fails(2, "--max-context 999999: the model was made for 8192 tokens", "run", "--max-context", "999999", "Hi")


class WrongPromptTest(CommandTest):
    def test_an_empty_prompt_is_named(self):
        self.fails(2, "the prompt is empty (read from standard input)", "run")
        self.fails(2, "the prompt is empty", "run", "")
        self.fails(2, "the prompt is blank", "run", " \n ")
        self.fails(2, "the prompt is blank", "run", stdin=b"\n")
        self.fails(2, "--tokens: no token id", "run", "--tokens", " , ")

    def test_a_standard_input_that_cannot_be_read_is_named(self):
        folder = os.open(ROOT, os.O_RDONLY)
        self.addCleanup(os.close, folder)
        self.fails(3, "standard input", "run", stdin=folder)
        ran = subprocess.run(["sh", "-c", 'exec "$0" run <&-', STRATA], capture_output=True, timeout=60)
        self.assertEqual(ran.returncode, 3)
        self.assertIn(b"standard input", ran.stderr)

    def test_several_words_without_quotes_get_a_hint(self):
        self.fails(2, "put the whole prompt in quotes", "run", "Tell", "me", "a", "story")

    def test_options_are_checked_before_anything_is_loaded(self):
        for message, args in [
                ("has no option --temprature; did you mean --temperature?", ["--temprature", "1"]),
                ("option --temperature: 200 is outside 0 to 100", ["--temperature", "200"]),
                ("option --top-p: 'x' is not a number", ["--top-p", "x"]),
                ("option --top-k: -1 is outside", ["--top-k", "-1"]),
                ("option --threads: '2.5' is not a whole number", ["--threads", "2.5"]),
                ("option --kv: 'q8' is none of auto, f32, f16", ["--kv", "q8"]),
                ("option --device: 'gpu' is none of cpu, plain", ["--device", "gpu"]),
                ("option --seed is given 2 times", ["--seed", "1", "--seed", "2"]),
                ("option --json takes no value", ["--json=1"]),
                ("--raw and --system cannot be used together", ["--raw", "--system", "x"]),
                ("--tokens stands in place of PROMPT", ["--tokens", "1"])]:
            with self.subTest(message):
                ran = self.fails(2, message, "run", *args, "Hello", "--model", "missing.gguf")
                self.assertEqual(len(ran.err.splitlines()), 1, ran)
        self.fails(2, "option --seed needs a value (N)", "run", "Hello", "--seed")

    def test_values_that_need_the_model_are_checked(self):
        self.fails(2, "--logit-bias, ID: 99999 is outside 0 to 8191", "run", "--logit-bias", "99999=1", "Hi")
        self.fails(2, "'5' is not ID=BIAS", "run", "--logit-bias", "5", "Hi")
        self.fails(2, "--tokens: 8192 is outside 0 to 8191", "run", "--tokens", "8192")
        self.fails(2, "--tokens: 'x' is not a whole number", "run", "--tokens", "1 x")
        self.fails(2, "not valid JSON", "run", "--tools", self.put("tools.json", "[{"), "Hi")
        self.fails(2, "expected a JSON array of tools", "run", "--tools", self.put("tools.json", "{}"), "Hi")
        self.fails(3, "no such file", "run", "--tools", "missing.json", "Hi")


class WrongModelTest(CommandTest):
    def both(self, message, path):
        for command in (["run", "--model", path, "Hi"], ["tokenize", "--model", path, "Hi"], ["info", path]):
            with self.subTest(command[0]):
                ran = self.fails(3, message, *command)
                self.assertEqual(ran.out, "")
                self.assertEqual(len(ran.err.splitlines()), 1, ran)

    def test_a_file_that_is_no_model_is_named(self):
        self.both("missing.gguf: no such file", "missing.gguf")
        self.both("is a directory", "models")
        self.both("not a GGUF file", "README.md")
        self.both("is empty", self.put("empty.gguf", b""))

    def test_a_file_that_is_cut_is_named(self):
        with open(MODEL, "rb") as file:
            start = file.read(1_000_000)
        self.both("the file is incomplete", self.put("cut.gguf", start))
        self.both("cut.gguf", self.put("cut.gguf", start[:1000]))

    def test_another_architecture_is_named(self):
        path = self.put("other.gguf", gguf([("general.architecture", "llama")], [("token_embd.weight", 32)]))
        self.assertIn("llama", self.runs("info", path).out)
        self.fails(3, "other.gguf", "run", "--model", path, "Hi")

    def test_the_bundled_model_is_looked_for_beside_the_program(self):
        lonely = os.path.join(self.folder.name, "strata")
        with open(STRATA, "rb") as program:
            self.put("strata", program.read())
        os.chmod(lonely, 0o755)
        done = subprocess.run([lonely, "run", "Hi"], capture_output=True, cwd=self.folder.name, timeout=60,
                              env={k: v for k, v in os.environ.items() if k != "STRATA_MODEL"})
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(b"no model was named, and the bundled one is not in its places", done.stderr)
        os.symlink(os.path.join(ROOT, "models"), os.path.join(self.folder.name, "models"))
        done = subprocess.run([lonely, "tokenize", "--ids", "fox"], capture_output=True, cwd=self.folder.name, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_environment_may_name_the_model(self):
        self.fails(3, "gone.gguf: no such file", "run", "Hi", env={"STRATA_MODEL": "gone.gguf"})
        self.fails(3, "here.gguf: no such file", "run", "--model", "here.gguf", "Hi", env={"STRATA_MODEL": "gone.gguf"})
        self.assertIn("Flash-Next Nano", self.runs("info", env={"STRATA_MODEL": MODEL}).out)


class StreamTest(CommandTest):
    def test_a_full_disk_is_named(self):
        for args in (["run", "--max-tokens", "4", "Hi"], ["run", "--json", "--max-tokens", "2", "Hi"], ["info"], ["tokenize", "Hi"], ["--help"]):
            with self.subTest(args[0]), open("/dev/full", "wb") as full:
                self.fails(1, "cannot write to standard output: No space left", *args, stdout=full)

    def test_a_closed_standard_output_is_named(self):
        for args in ("run --max-tokens 4 Hi", "tokenize Hi"):
            done = subprocess.run(["sh", "-c", f'exec "$0" {args} >&-', STRATA], capture_output=True, timeout=60)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(b"strata: standard output is closed\n", done.stderr)

    def test_a_reader_that_goes_away_ends_the_answer(self):
        running = subprocess.Popen([STRATA, "run", *GREEDY, "--raw", "Once upon a time"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        running.stdout.read(1)
        running.stdout.close()
        err = running.stderr.read()
        running.stderr.close()
        self.assertEqual(running.wait(60), 1, err)
        self.assertTrue(err.endswith(b"strata: standard output: its reader has gone away\n"), err)

    def test_a_model_cut_short_while_it_is_used_is_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model.gguf")
            shutil.copy(MODEL, model)
            command = [STRATA, "run", "--model", model, "--raw", "--temperature", "1", "--logit-bias", "0=-100", "Once"]
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                process.stdout.read(1)
                os.truncate(model, 1_000_000)
                process.stdout.read()
                err = process.stderr.read().decode()
            self.assertEqual(process.returncode, 3, err)
            self.assertRegex(err.splitlines()[-1], r"^strata: .*(cut short|changed|size).*")

    def test_an_interrupt_ends_the_answer_cleanly(self):
        for json_flag in ([], ["--json"]):
            running = subprocess.Popen([STRATA, "run", *GREEDY, *json_flag, "--logit-bias", "0=-100", "--logit-bias", "2=-100", "--raw", "Once upon a time"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            while b" on cpu, context of" not in running.stderr.readline():  # from here on it is caught
                self.assertIsNone(running.poll())
            if not json_flag:
                running.stdout.read(1)
            running.send_signal(signal.SIGINT)
            out, err = running.communicate(timeout=60)
            self.assertEqual(running.returncode, 130, err)
            self.assertIn(b"; interrupted; logits ", err)
            self.assertTrue(err.endswith(b"strata: interrupted\n"), err)
            if json_flag:
                self.assertEqual(json.loads(out)["finish"], "cancelled")
            else:
                self.assertTrue(out.endswith(b"\n"))

    def test_errors_are_reported_even_without_standard_error(self):
        done = subprocess.run(["sh", "-c", 'exec "$0" run --nonsense 2>&-', STRATA], capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 2)


class TokenizeTest(CommandTest):
    def test_ids_and_pieces_of_a_text(self):
        self.assertEqual(self.runs("tokenize", "--ids", "Hello, fox!").out, "3681 28 4632 17\n")
        self.assertEqual(self.runs("tokenize", "Hello, fox!").out, "   3681  'Hello'\n     28  ','\n   4632  ' fox'\n     17  '!'\n")

    def test_the_reference_strings_get_their_ids(self):
        cases = golden("tokenizer")
        cases = cases["cases"] if isinstance(cases, dict) and "cases" in cases else cases
        checked = 0
        for case in cases if isinstance(cases, list) else [{"text": k, "ids": v} for k, v in cases.items()]:
            if not isinstance(case, dict) or not case.get("text") or "ids" not in case or not isinstance(case["ids"], list):
                continue
            ids = json.loads(self.runs("tokenize", "--json", "--special", stdin=case["text"].encode()).out)["ids"]
            self.assertEqual(ids, case["ids"], case["text"])
            checked += 1
        self.assertGreater(checked, 3)

    def test_decoding_gives_the_text_back(self):
        for text in ("Hello, fox!", "caf\u00e9 \u4f60\u597d \U0001f98a\n\tend", " leading", "<|im_end|> in text"):
            ids = self.runs("tokenize", "--ids", "-", stdin=text.encode()).out
            self.assertEqual(self.runs("tokenize", "--decode", ids).out, text + "\n")

    def test_control_tokens_are_text_unless_asked_for(self):
        self.assertGreater(len(self.runs("tokenize", "--ids", "<|im_end|>").out.split()), 3)
        self.assertEqual(self.runs("tokenize", "--ids", "--special", "<|im_end|>").out, "2\n")
        self.assertEqual(self.runs("tokenize", "--decode", "2").out, "<|im_end|>\n")

    def test_standard_input_is_taken_byte_for_byte(self):
        out = json.loads(self.runs("tokenize", "--json", stdin=b"a\xff\n").out)
        self.assertEqual(out["pieces"], ["a", "\\xFF", "\\n"])
        self.assertEqual(out["count"], 3)

    def test_a_chat_request_becomes_a_prompt(self):
        for name in ("story", "sum-thinking", "tool-call", "tool-answer"):
            case = golden(name)
            path = self.put("request.json", json.dumps(case["request"]))
            out = json.loads(self.runs("tokenize", "--json", "--chat", path).out)
            self.assertEqual(out["text"], case["text"], name)
            self.assertEqual(out["ids"], case["tokens"], name)
            shown = self.runs("tokenize", "--chat", path).out
            self.assertIn(case["text"].rstrip("\n"), shown)
            self.assertTrue(shown.endswith(" ".join(map(str, case["tokens"])) + "\n"))

    def test_a_template_of_ones_own_may_be_tried(self):
        request = self.put("request.json", json.dumps({"messages": [{"role": "user", "content": "Hi"}]}))
        template = self.put("chat.jinja", "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}")
        self.assertEqual(self.runs("tokenize", "--chat", request, "--template", template).out.splitlines()[0], "[user] Hi")
        self.fails(3, "chat.jinja line 1: ", "tokenize", "--chat", request, "--template", self.put("chat.jinja", "{% for %}"))

    def test_wrong_requests_are_named(self):
        for message, body in [("expected a JSON object with messages", "[]"), ("expected a JSON object with messages", "{}"),
                              ("not valid JSON at byte", "{"), ("enable_thinking is string", '{"messages": [], "enable_thinking": "yes"}'),
                              ("messages", '{"messages": []}'), ("nested deeper than", "[" * 100000),
                              ("reasoning_effort is number", '{"messages": [], "reasoning_effort": 3}')]:
            with self.subTest(body[:40]):
                self.fails(2, message, "tokenize", "--chat", self.put("request.json", body))
        self.fails(2, "--chat takes no TEXT", "tokenize", "--chat", "x.json", "text")
        self.fails(2, "--decode and --ids cannot be used together", "tokenize", "--decode", "1", "--ids")
        self.fails(2, "the text is empty", "tokenize")
        self.fails(2, "option --decode: 8192 is outside 0 to 8191", "tokenize", "--decode", "8192")


class InfoTest(CommandTest):
    def test_a_model_is_described_with_what_it_costs(self):
        out = self.runs("info").out
        for part in ('"Flash-Next Nano", architecture qwen4exp', "qwen4exp.expert_count", "blk.0.ffn_gate_exps.weight", "IQ3_XXS",
                     "read for one token", "keys and values", "memory for a context of 8,192 tokens"):
            self.assertIn(part, out)
        self.assertLess(max(map(len, out.splitlines())), 160, "long values are cut")

    def test_json_holds_keys_tensors_and_plan(self):
        out = json.loads(self.runs("info", "--json", "--max-context", "1024", "--device", "plain", MODEL).out)
        self.assertEqual(out["file"], os.path.basename(MODEL))
        self.assertEqual(out["bytes"], os.path.getsize(MODEL))
        self.assertEqual(out["keys"]["qwen4exp.rope.dimension_sections"], [6, 5, 5, 0])
        self.assertEqual(out["keys"]["tokenizer.ggml.tokens"], {"array_of": "string", "count": 8192})
        self.assertEqual(sum(t["tensors"] for t in out["types"].values()), len(out["tensors"]))
        self.assertTrue(out["runnable"])
        self.assertEqual(out["plan"]["max_context"], 1024)
        self.assertEqual(out["plan"]["kv"], "f32")

    def test_numbers_that_are_not_finite_are_shown(self):
        path = self.put("odd.gguf", gguf([("some.scale", float("nan")), ("some.limit", float("-inf")), ("some.half", 0.5)]))
        self.assertRegex(self.runs("info", path).out, r"some\.scale +nan\n +some\.limit +-inf\n")
        self.assertEqual(json.loads(self.runs("info", "--json", path).out)["keys"], {"some.scale": "nan", "some.limit": "-inf", "some.half": 0.5})

    def test_parts_of_a_model_are_described_with_the_reason_why_they_cannot_run(self):
        self.assertIn("cannot run alone: it is the draft head of a model", self.runs("info", DRAFT).out)
        tokenizer = self.put("tokenizer.gguf", gguf([("general.architecture", "qwen4exp"), ("tokenizer.ggml.tokens", ["a", "b"])]))
        self.assertIn("cannot run alone: it is a tokenizer without weights", self.runs("info", tokenizer).out)
        table = self.put("table.gguf", gguf([], [("per_layer_token_embd.weight", 32)]))
        self.assertIn("cannot run alone: it is the n-gram table of a model", self.runs("info", table).out)
        self.assertFalse(json.loads(self.runs("info", "--json", table).out)["runnable"])

    def test_a_draft_head_adds_to_the_plan(self):
        alone = json.loads(self.runs("info", "--json", self.linked_model()).out)["plan"]["bytes_mapped"]
        both = json.loads(self.runs("info", "--json", "--mtp", DRAFT, self.linked_model()).out)["plan"]["bytes_mapped"]
        self.assertGreater(both, alone)
        self.fails(3, "no such file", "info", "--mtp", "missing.gguf")

    def linked_model(self):
        path = os.path.join(self.folder.name, "linked.gguf")
        if not os.path.exists(path):
            os.symlink(MODEL, path)
        return path

    def test_what_cannot_be_planned_is_an_error(self):
        self.fails(2, "--max-context 999999: the model was made for 8192 tokens", "info", "--max-context", "999999")
        self.fails(2, "takes one FILE, found 2", "info", MODEL, DRAFT)


class EvalTest(CommandTest):
    TEXT = "Once upon a time there was a fox. He lived in a warm valley.\n" * 6

    def test_perplexity_is_that_of_the_reference_implementation(self):
        case = golden("prose-513")
        text = self.runs("tokenize", "--decode", ",".join(map(str, case["tokens"]))).out[:-1]
        out = json.loads(self.runs("eval", "--json", "--kv", "f32", "--text", self.put("prose.txt", text)).out)
        self.assertEqual(out["scored_tokens"], 512)
        self.assertAlmostEqual(out["mean_nll"], case["nll"], delta=0.01)

    def test_the_text_is_cut_into_windows_and_every_other_token_than_their_first_is_scored(self):
        path = self.put("text.txt", self.TEXT)
        n = len(self.runs("tokenize", "--ids", self.TEXT).out.split())
        out = json.loads(self.runs("eval", "--json", "--context", "16", "--text", path).out)
        windows = (n + 15) // 16 - (1 if n % 16 == 1 else 0)
        self.assertEqual(out["windows"], windows)
        self.assertEqual(out["scored_tokens"], out["read_tokens"] - windows)
        shown = self.runs("eval", "--context", "16", "--text", path)
        self.assertRegex(shown.out, r"^perplexity [\d.]+ \+- [\d.]+ \([\d,]+ tokens scored in \d+ windows of up to 16 tokens\)\n$")
        self.assertIn(f"perplexity {out['perplexity']:.4f} +- {out['standard_error']:.4f}", shown.out)
        self.assertRegex(shown.err, r"tokens read in .*tok/s\n$")

    def test_standard_input_may_be_scored(self):
        from_file = self.runs("eval", "--text", self.put("text.txt", self.TEXT)).out
        self.assertEqual(self.runs("eval", "--text", "-", stdin=self.TEXT.encode()).out, from_file)

    def test_wrong_texts_are_named(self):
        self.fails(2, "strata eval needs --text FILE", "eval")
        self.fails(3, "missing.txt: no such file", "eval", "--text", "missing.txt")
        self.fails(3, "is a directory", "eval", "--text", "models")
        self.fails(3, "is empty", "eval", "--text", self.put("empty.txt", ""))
        self.fails(2, "the text is empty", "eval", "--text", "-")
        self.fails(2, "fewer than two tokens", "eval", "--text", self.put("short.txt", "a"))
        self.fails(2, "--context 999999: the model was made for 8192 tokens", "eval", "--text", "README.md", "--context", "999999")
        self.fails(2, "option --context: 1 is outside 2 to", "eval", "--text", "README.md", "--context", "1")


if __name__ == "__main__":
    if not os.access(STRATA, os.X_OK):
        sys.exit(f"{STRATA} is not there; build it, or name the program in STRATA_BINARY")
    unittest.main()
