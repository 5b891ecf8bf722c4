#!/usr/bin/env python3
"""tools/test_summary on small reports: what it counts, what it says of failures and absences, how it exits."""
import os
import subprocess
import sys
import tempfile
import unittest

SUMMARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/test_summary")
PASSED = '<testcase name="ops/A.Works" status="run"><system-out>fine</system-out></testcase>'
FAILED = ('<testcase name="ops/A.Breaks" status="fail"><failure message=""/><system-out>[ RUN      ] A.Breaks\n'
          "a_test.cpp:4: Failure\nExpected: 1\n[  FAILED  ] A.Breaks</system-out></testcase>")
SKIPPED = ('<testcase name="cpu/B.Wide" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>'
           "b_test.cpp:2: Skipped\nthis CPU has no AVX-512\n[  SKIPPED ] B.Wide (0 ms)</system-out></testcase>")
SCRIPT = ('<testcase name="tidy" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out>'
          "absent: python3 is not installed\n</system-out></testcase>")
NO_BINARY = '<testcase name="x/C.D" status="notrun"><skipped message="Unable to find executable"/><system-out>gone</system-out></testcase>'
DISABLED = '<testcase name="x/C.E" status="disabled"><system-out>Disabled</system-out></testcase>'


def summary(*contents, options=()):
    """Runs the script on these reports (a name and a text each); its lines and its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, text in contents:
            paths.append(os.path.join(folder, name))
            if text is not None:
                with open(paths[-1], "w", encoding="utf-8") as file:
                    file.write(text)
        run = subprocess.run([sys.executable, SUMMARY, *options, *paths], capture_output=True, text=True)
    assert not run.stderr, run.stderr
    return run.stdout.splitlines(), run.returncode


def junit(*cases):
    return ("a.xml", "<testsuite>" + "".join(cases) + "</testsuite>")


class Summary(unittest.TestCase):
    def test_the_last_line_carries_the_counts(self):
        lines, code = summary(junit(PASSED, PASSED, SKIPPED))
        self.assertEqual((lines[-1], code), ("2 passed, 0 failed, 1 skipped", 0))

    def test_a_failure_shows_its_complaint_and_fails_the_run(self):
        lines, code = summary(junit(PASSED, FAILED))
        self.assertEqual((lines[-1], code), ("1 passed, 1 failed, 0 skipped", 1))
        at = lines.index("failed: ops/A.Breaks")
        self.assertEqual(lines[at + 1:at + 3], ["    a_test.cpp:4: Failure", "    Expected: 1"])

    def test_absent_tests_are_grouped_by_their_reason(self):
        lines, _ = summary(junit(PASSED, SKIPPED, SKIPPED, SCRIPT, DISABLED))
        self.assertIn("absent: 2 because: this CPU has no AVX-512", lines)
        self.assertIn("absent: 1 because: python3 is not installed", lines)
        self.assertIn("absent: 1 because: disabled in its source", lines)

    def test_a_test_whose_binary_is_gone_has_failed(self):
        self.assertEqual(summary(junit(PASSED, NO_BINARY))[0][-1], "1 passed, 1 failed, 0 skipped")

    def test_no_test_at_all_is_a_failure(self):
        lines, code = summary(junit())
        self.assertEqual((lines[-2:], code), (["no test ran", "0 passed, 0 failed, 0 skipped"], 1))
        self.assertEqual(summary(junit(SKIPPED))[1], 1)

    def test_a_missing_or_broken_report_is_a_failure(self):
        self.assertEqual(summary(("a.xml", None))[0][-1], "0 passed, 1 failed, 0 skipped")
        self.assertEqual(summary(junit(PASSED), ("b.xml", "<testsuite>"))[0][-1], "1 passed, 1 failed, 0 skipped")

    def test_control_characters_in_an_output_do_no_harm(self):
        self.assertEqual(summary(junit(PASSED.replace("fine", "\x01\x1b[m")))[0][-1], "1 passed, 0 failed, 0 skipped")

    def test_an_error_of_ctest_itself_counts_once(self):
        self.assertEqual(summary(junit(PASSED), options=["--exit-code", "8"])[0][-1], "1 passed, 1 failed, 0 skipped")
        self.assertEqual(summary(junit(FAILED), options=["--exit-code", "8"])[0][-1], "0 passed, 1 failed, 0 skipped")

    def test_check_lines_are_added_to_the_reports(self):
        lines, code = summary(junit(PASSED), ("c.tsv", "passed\tci/clang builds it\t\nskipped\tci/format\tno clang-format\n"))
        self.assertEqual((lines[-1], code), ("2 passed, 0 failed, 1 skipped", 0))
        self.assertIn("absent: 1 because: no clang-format", lines)


if __name__ == "__main__":
    unittest.main()
