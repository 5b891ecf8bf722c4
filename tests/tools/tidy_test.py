#!/usr/bin/env python3
"""tools/tidy on small crafted trees: each rule finds its fault, in its place, and nothing else."""
import os
import runpy
import subprocess
import sys
import tempfile
import unittest

TIDY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/tidy")
HEADER = "#pragma once\n"
ROOM = "strata_room(os SOURCES file.cpp DEPS base)\nstrata_test(os/file)\n"
CLEAN = {"CMakeLists.txt": ROOM, "src/os/file.cpp": "int f() { return 1; }\n", "tests/os/file_test.cpp": "// a test\n"}
RUN = runpy.run_path(TIDY)["run"]


def write_tree(root, files):
    """CLEAN with these files added; None removes one."""
    for path, content in {**CLEAN, **files}.items():
        if content is None:
            continue
        os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
        with open(os.path.join(root, path), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())


class Tidy(unittest.TestCase):
    def expect(self, files, *findings):
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, files)
            found = [f"{f.path}:{f.line}: {f.rule}" for f in RUN(root)[1]]
        self.assertEqual(sorted(found), sorted(findings))

    def test_findings_are_printed_in_order_and_fail_the_run(self):
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, {"src/os/a.h": "", "docs/a.md": "TO" + "DO\n"})
            run = subprocess.run([sys.executable, TIDY, "--root", root], capture_output=True, text=True)
        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stdout.splitlines(), ['docs/a.md:1: unfinished: "TO' + 'DO" may not stand here',
                                                   "src/os/a.h:1: pragma-once: a header without #pragma once", "tidy: 5 files, 2 problems"])

    def test_a_clean_tree_passes(self):
        self.expect({})

    def test_a_long_file_and_a_long_line_are_found(self):
        self.expect({"src/os/a.h": HEADER + "\n" * 600}, "src/os/a.h:601: file-lines")
        self.expect({"src/os/a.h": HEADER + "\n" * 599})
        self.expect({"src/os/a.h": HEADER + "//" + "x" * 159 + "\n"}, "src/os/a.h:2: columns")
        self.expect({"src/os/a.h": HEADER + "//" + "x" * 158 + "\n"})

    def test_a_function_of_71_lines_is_found_where_its_signature_begins(self):
        body = "  g();\n"
        self.expect({"src/os/a.h": HEADER + "namespace s {\n\ninline void f() {\n" + body * 69 + "}\n}\n"}, "src/os/a.h:4: function-lines")
        self.expect({"src/os/a.h": HEADER + "namespace s {\n\ninline void f() {\n" + body * 68 + "}\n}\n"})

    def test_functions_are_recognised_in_their_many_shapes(self):
        body = " {\n" + "  if (a) { b(); }\n" * 70 + "}\n"
        for head in ("Foo::Foo(int a) : a_{a}, b_(1), c_{2}", "template <class T = int>\nvoid f(std::vector<T> v = {}, int n = 3)",
                     "bool operator==(const A& a) const noexcept", "auto f() -> std::vector<int>", "TEST(Name, DoesThis)"):
            self.expect({"src/os/a.h": HEADER + head + body}, "src/os/a.h:2: function-lines")
        method = "struct A {\n int x = 1;\n public:\n  void f() const" + body + "};\n"
        self.expect({"src/os/a.h": HEADER + method}, "src/os/a.h:5: function-lines")

    def test_tables_types_and_braces_in_text_are_not_functions(self):
        table = "constexpr std::array<int, size(3)> kTable = {\n" + "  1,\n" * 80 + "};\n"
        plain = "struct A {\n" + "  int f() { return '{' + 1'000; }\n" * 80 + "};\n"
        odd = 'const char* kOpen = "{(" R"x({{" \'{)x"; // {\n' + "#if A\nvoid f() {\n#else\nvoid g() {\n#endif\n}\n" + "int x;\n" * 80
        self.expect({"src/os/a.h": HEADER + table, "src/os/b.h": HEADER + plain, "src/os/c.h": HEADER + odd})

    def test_device_code_may_have_longer_functions(self):
        self.expect({"src/gpu/a.cuh": HEADER + "void f() {\n" + ";\n" * 100 + "}\n"})
        self.expect({"src/gpu/a.cuh": HEADER + "void f() {\n" + ";\n" * 149 + "}\n"}, "src/gpu/a.cuh:2: function-lines")

    def test_a_forbidden_include_is_found_and_a_permitted_one_is_not(self):
        self.expect({"src/os/a.h": HEADER + '#include "base/x.h"\n#include "tensor/x.h"\n'}, "src/os/a.h:3: include")
        self.expect({"src/cpu/a.h": HEADER + '#include "os/threads.h"\n#include "os/file.h"\n'}, "src/cpu/a.h:3: include")
        self.expect({"src/server/a.h": HEADER + '#include "engine/engine.h"\n#include "layers/block.h"\n'}, "src/server/a.h:3: include")
        self.expect({"src/os/a.h": HEADER + '#include "file.h"\n'}, "src/os/a.h:2: include")
        self.expect({"src/attic/a.h": HEADER}, "src/attic/a.h:1: room")

    def test_a_forbidden_link_is_found(self):
        self.expect({"CMakeLists.txt": ROOM.replace("DEPS base", "DEPS base engine")}, "CMakeLists.txt:1: include")

    def test_each_key_has_one_owner(self):
        for line, rule, owner in (('auto x = getenv("A");', "key-getenv", None), ("#include <immintrin.h>", "key-intrinsics", "src/cpu/a.h"),
                                  ("#include <sys/mman.h>", "key-os", "src/os/a.h"), ("#include <unistd.h>", "key-os", "src/server/http_socket.h"),
                                  ("#ifdef _WIN32\n#endif", "key-os", "src/os/a.h"), ("#include <nlohmann/json.hpp>", "key-json", "src/base/json.h"),
                                  ("cudaMalloc(x);", "key-gpu", "src/gpu/device.h"),
                                  ("auto t = std::chrono::steady_clock::now();", "key-clock", "src/engine/a.h"),
                                  ('auto n = "blk.0";', "key-tensor-names", "src/model/a.h")):
            self.expect({"src/ops/a.h": HEADER + line + "\n"}, "src/ops/a.h:2: " + rule)
            if owner:
                self.expect({owner: HEADER + line + "\n"})
        self.expect({"src/ops/a.h": HEADER + "// getenv is explained here\n"})

    def test_a_source_without_a_test_or_a_list_is_found(self):
        self.expect({"tests/os/file_test.cpp": None}, "src/os/file.cpp:1: unit-test")
        self.expect({"src/os/more.cpp": "", "tests/os/more_test.cpp": ""}, "src/os/more.cpp:1: cmake-list", "tests/os/more_test.cpp:1: cmake-list")
        part = {"src/os/file_uring.cpp": "", "CMakeLists.txt": ROOM.replace("file.cpp", "file.cpp file_uring.cpp")}
        self.expect(part)
        self.expect({**part, "tests/os/file_test.cpp": None}, "src/os/file.cpp:1: unit-test", "src/os/file_uring.cpp:1: unit-test")
        self.expect({"fuzz/os/file_fuzz.cpp": ""}, "fuzz/os/file_fuzz.cpp:1: cmake-list")
        self.expect({"CMakeLists.txt": "# file.cpp\n" + ROOM.replace("file.cpp", "")}, "src/os/file.cpp:1: cmake-list")

    def test_a_header_has_a_guard_and_a_short_opening(self):
        self.expect({"src/os/a.h": "int x;\n"}, "src/os/a.h:1: pragma-once")
        self.expect({"src/os/a.h": "// x\n" * 11 + HEADER}, "src/os/a.h:1: opening")
        self.expect({"src/os/a.h": "// x\n" * 10 + HEADER})

    def test_a_big_blob_is_found_except_a_model(self):
        self.expect({"models/a.gguf": b"\0" * 300000})
        self.expect({"tests/golden/a.bin": b"\0" * 300000}, "tests/golden/a.bin:1: blob")
        self.expect({f"tests/golden/{i}.bin": b"\0" * 250000 for i in range(22)}, ".:1: total")

    def test_words_of_the_workshop_are_found(self):
        self.expect({"docs/a.md": "first\nTO" + "DO: more\n"}, "docs/a.md:2: unfinished")
        self.expect({"docs/a.md": "in /ho" + "me/somebody/x\n"}, "docs/a.md:1: machine-path")
        self.expect({"docs/a.md": "fixes issue" + " #12\n"}, "docs/a.md:1: word")
        self.expect({"docs/a.md": "see https://example.org/home/page and IQ3_XXS and ./tmp/x\n"})

    def test_an_exception_needs_a_reason_and_a_use(self):
        long = {"src/os/a.h": HEADER + "\n" * 600}
        self.expect({**long, "tools/tidy_exceptions.txt": "# list\n\nfile-lines src/os/a.h a generated table\n"})
        self.expect({**long, "tools/tidy_exceptions.txt": "file-lines src/os/a.h\n"}, "src/os/a.h:601: file-lines", "tools/tidy_exceptions.txt:1: exception")
        self.expect({"tools/tidy_exceptions.txt": "file-lines src/os/a.h was long once\n"}, "tools/tidy_exceptions.txt:1: exception")


if __name__ == "__main__":
    unittest.main()
