#!/usr/bin/env python3
"""./dev without building anything: its help, its refusals, and what it says on a machine that lacks everything."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

DEV = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../dev")
SHELL_TOOLS = "bash env readlink dirname sed awk grep sort head tail cut cat mkdir rm nproc flock uname".split()


def dev(*arguments, **options):
    return subprocess.run([shutil.which("bash"), DEV, *arguments], capture_output=True, text=True, **options)


class Dev(unittest.TestCase):
    def test_help_lists_each_command_that_exists(self):
        listed = set(re.findall(r"^  ([a-z]+)", dev("help").stdout, re.M))
        with open(DEV, encoding="utf-8") as file:
            defined = set(re.findall(r"^cmd_([a-z]+)\(", file.read(), re.M))
        self.assertEqual(listed, defined | {"help"})

    def test_an_unknown_command_is_refused_on_stderr(self):
        run = dev("dance")
        self.assertEqual((run.returncode, run.stdout), (1, ""))
        self.assertIn('no command "dance"', run.stderr)

    def test_an_unknown_preset_is_refused(self):
        self.assertIn('no preset "fastest"', dev("build", "fastest").stderr)

    def test_a_machine_without_tools_is_told_what_to_install(self):
        with tempfile.TemporaryDirectory() as folder:
            # A copy, so that no build folder of this checkout is in the way; a path with a blank, because they exist.
            os.makedirs(os.path.join(folder, "a tree/bin"))
            copy = shutil.copy(DEV, os.path.join(folder, "a tree/dev"))
            for tool in filter(shutil.which, SHELL_TOOLS):
                os.symlink(shutil.which(tool), os.path.join(folder, "a tree/bin", tool))
            run = subprocess.run([shutil.which("bash"), copy, "run", "Hello"], capture_output=True, text=True,
                                 env={"PATH": os.path.join(folder, "a tree/bin")})
        self.assertEqual((run.returncode, run.stdout), (1, ""))
        for tool in ("g++ or clang++", "cmake 3.25", "ninja or make"):
            self.assertIn(tool, run.stderr)


if __name__ == "__main__":
    unittest.main()
