"""Tests of the programs in SVCMAP_PROGRAMS: version, linked libraries, and manual pages."""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent.parent
BIN = Path(os.environ["SVCMAP_BIN"])
SECTIONS = {
    "svcmapd": "8",
    "svcmapctl": "1",
    "svcmap-kube": "8",
    "svcmap-etcd": "8",
    "svcmap-bench": "1",
    "svcmap-protocol-check": "1",
}
PROGRAMS = os.environ["SVCMAP_PROGRAMS"].split()


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def help_texts(program, *command):
    """Returns the --help outputs of a command and of its subcommands, by name."""
    text = output_of(BIN / program, *command, "--help")
    texts = {" ".join(command): text}
    for name in re.findall(r"^  ([a-z][a-z-]*)  ", text.partition("\nSubcommands:\n")[2], re.M):
        texts.update(help_texts(program, *command, name))
    return texts


def options_of(text):
    """Returns the names of all options in a --help output."""
    names = set()
    for line in text.splitlines():
        match = re.match(r"  (-[^ ]+)", line)
        if match:
            # "--no-external-ips{false}" and "--listen,..." without types.
            names.update(re.sub(r"\{.*", "", name) for name in match[1].split(","))
    return names


class ProgramsTest(unittest.TestCase):
    def test_every_program_prints_version_and_commit(self):
        version = re.search(r"project\(svcmap VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
        for program in PROGRAMS:
            with self.subTest(program):
                self.assertRegex(output_of(BIN / program, "--version"),
                                 rf"^{program} {re.escape(version)} "
                                 r"\(commit ([0-9a-f]{12}(-dirty)?|unknown)\)\n$")

    def test_programs_link_only_libraries_with_a_compatible_licence(self):
        """third_party/README.md: libnftables is GPL-2.0-only."""
        for program in PROGRAMS:
            linked = output_of("readelf", "-d", BIN / program)
            self.assertIn("(NEEDED)", linked)
            self.assertNotIn("[libnftables.so", linked, program)
            if program not in ("svcmapd", "svcmap-bench"):
                self.assertNotRegex(linked, r"\[lib(nftnl|mnl)\.so", program)


class ManPagesTest(unittest.TestCase):
    def page(self, program):
        path = Path(self.folder.name) / f"{program}.{SECTIONS[program]}"
        subprocess.run(
            [
                sys.executable,
                "-B",
                str(SOURCE / "deploy/man/man_pages.py"),
                str(BIN / program),
                SECTIONS[program],
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
            texts = help_texts(program)
            commands = [command for command in texts if command]
            self.assertEqual(bool(commands), program in ("svcmapctl", "svcmap-bench"))
            for command in commands:
                self.assertIn(f'.SS "{command}"\n', page)
            terms = set(re.findall(r"\\fB(-[^\\{]+)", page))
            for text in texts.values():
                options = options_of(text)
                self.assertIn("--help", options)
                self.assertEqual(options - terms, set(), program)
            if program == "svcmapctl":
                self.assertIn("support-bundle", commands)
                self.assertIn("fleet wait", commands)
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
