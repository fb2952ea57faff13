"""Tests of the manual pages: every option of every program and command, and no warnings of man."""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent.parent
BIN = Path(os.environ["SVCMAP_BIN"])
PROGRAMS = {"svcmapd": "8", "svcmapctl": "1", "svcmap-kube": "8", "svcmap-bench": "1",
            "svcmap-protocol-check": "1"}


def help_of(*command):
    return subprocess.run([*command, "--help"], check=True, capture_output=True, text=True).stdout


def options_of(text):
    """Returns the names of all options in a --help output."""
    names = set()
    for line in text.splitlines():
        match = re.match(r"  (-[^ ]+)", line)
        if match:
            # "--no-external-ips{false}" and "--listen,..." without types.
            names.update(re.sub(r"\{.*", "", name) for name in match[1].split(","))
    return names


class ManPagesTest(unittest.TestCase):
    def page(self, program):
        path = Path(self.folder.name) / f"{program}.{PROGRAMS[program]}"
        subprocess.run(
            [
                sys.executable,
                "-B",
                str(SOURCE / "deploy/man/man_pages.py"),
                str(BIN / program),
                PROGRAMS[program],
                "0.0.0",
                str(path),
            ],
            check=True,
        )
        return path

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_pages_contain_every_command_and_option(self):
        for program in PROGRAMS:
            page = self.page(program).read_text(encoding="utf-8").replace("\\-", "-")
            texts = [help_of(BIN / program)]
            commands = re.findall(r"^  ([a-z][a-z-]*)  ", texts[0].partition("Subcommands:")[2], re.M)
            self.assertEqual(bool(commands), program in ("svcmapctl", "svcmap-bench"))
            for command in commands:
                self.assertIn(f'.SS "{command}"\n', page)
                texts.append(help_of(BIN / program, command))
            terms = set(re.findall(r"\\fB(-[^\\{]+)", page))
            for text in texts:
                options = options_of(text)
                self.assertIn("--help", options)
                self.assertEqual(options - terms, set(), program)
            if program == "svcmapctl":
                self.assertIn("support-bundle", commands)
                self.assertIn("--hash-names", terms)
            if program == "svcmapd":
                self.assertIn("--service-counters", terms)

    def test_man_formats_the_pages_without_warnings(self):
        for program in PROGRAMS:
            path = self.page(program)
            result = subprocess.run(
                ["man", "--warnings", "--local-file", str(path)],
                check=True,
                capture_output=True,
                text=True,
                env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MANROFFSEQ": ""},
            )
            self.assertEqual(result.stderr, "", program)
            self.assertIn(f"{program} - ", result.stdout)
            self.assertIn("SEE ALSO", result.stdout)


if __name__ == "__main__":
    unittest.main()
