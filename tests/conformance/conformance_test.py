"""Generates docs/conformance.md from docs/specification.md, the names of all tests and tables.py, and compares the
generated text with the existing file. SVCMAP_UPDATE_DOCS=1 rewrites the file. Also checks that the listed tests ran,
passed and made assertions. `make test` runs this test after all other tests.

SVCMAP_BUILD is the build folder. Programs that are not built or have no results are reported but do not fail the test,
so that a developer can run only a few programs. With SVCMAP_REQUIRE_TEST_RESULTS=1 (make test), they are a failure."""

import collections
import os
import pathlib
import re
import subprocess
import unittest

from tables import OTHER_TESTS, UPSTREAM_TESTS

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SVCMAP_BUILD", TOP / "build/release"))
PAGE = TOP / "docs/conformance.md"
STRICT = "SVCMAP_REQUIRE_TEST_RESULTS" in os.environ

TEXT = """# Conformance

Each requirement of the [specification](specification.md), its result and its tests.
`tests/conformance/` generates this page from the specification and the names of all tests. To update it, run
`SVCMAP_UPDATE_DOCS=1 ctest --preset release -R conformance_test`.

- A test shows the requirements whose numbers are part of its name. Tests with other names are listed in
  `tests/conformance/tables.py`.
- **passed**: `make test` fails unless all tests of the row ran, passed, and made at least one assertion each.
  Empty, failed and skipped tests do not count.
- **differs**: svcmap deliberately behaves differently from kube-proxy. The tests show svcmap's behavior, and
  the specification gives the reason.
- **not tested**: the specification gives the reason.
- `*` in a name stands for IPv4 and IPv6. A name is a `--gtest_filter` of its program; append `/*` to a test with
  parameters.

{requirements} requirements: {passed} passed, {not_tested} not tested. {differ} differ on purpose.
{tables}
## Kubernetes' own end-to-end tests

| Area | Test | svcmap's tests |
| --- | --- | --- |
{upstream}
## Test programs

`make test` runs all of these programs. CONTRIBUTING.md describes the labels. Programs labelled netns or
contract use the kernel of the machine. Tests labelled nightly or long do not count here.

| Program | Labels in ctest |
| --- | --- |
{programs}"""

# A paragraph of the specification. `text` may contain "**Differs:**" or "**Not tested:**" with an explanation.
Requirement = collections.namedtuple("Requirement", "section number title text")


def requirements_in(name):
    """Returns the requirement numbers in a name: "Suite.S10_S12_Text" and "Suite.S10S12Text" contain 10 and 12,
    "Suite.Test/S10ToS12_Text" contains 10, 11 and 12."""
    numbers = []
    for group in re.findall(r"(?<=[._/])((?:S\d+(?:ToS\d+)?)+)", name):
        for first, last in re.findall(r"S(\d+)(?:ToS(\d+))?", group):
            numbers += range(int(first), int(last or first) + 1)
    return numbers


def test_name(suite, test):
    """Returns "Suite.Test" without the name of the instantiation, and without the parameter unless the parameter
    contains a requirement number. In such a parameter, "*" replaces IPv4 and IPv6. The name, or the name with "/*"
    appended, is a valid --gtest_filter."""
    base, slash, parameter = test.partition("/")
    if requirements_in(slash + parameter):
        base = re.sub("IPv[46]", "*", test)
    return suite.rpartition("/")[2] + "." + base


def tests_in(listing):
    """Returns the names of the tests in the output of --gtest_list_tests, without disabled tests."""
    suite = ""
    for line in listing.splitlines():
        line = line.partition("  #")[0]
        if not line.startswith("  "):
            suite = line.partition(".")[0] if line.endswith(".") else ""
        elif suite and "DISABLED_" not in line:
            yield test_name(suite, line[2:])


def read_specification():
    requirements, section = [], ""
    for paragraph in (TOP / "docs/specification.md").read_text().split("\n\n"):
        for heading in re.findall(r"^## (.*)", paragraph, re.M):
            section = heading
        if '<a id="s-' not in paragraph:
            continue
        paragraph = " ".join(paragraph.split())
        found = re.fullmatch(r'<a id="s-(\d+)"></a>\*\*S-\1 ([^*]+)\.\*\* (\S.*)', paragraph)
        assert found, f"expected '<a id=\"s-N\"></a>**S-N Title.** text', found: {paragraph[:80]}"
        number = int(found[1])
        assert section and number == len(requirements) + 1, f"S-{number} follows S-{len(requirements)}"
        requirements.append(Requirement(section, number, found[2], found[3]))
    return requirements


class Programs:
    """The test programs of the build folder, their tests, and the results that ctest left: a file for each entry of
    ctest, which is a program or one shard of a program."""

    def __init__(self):
        entries, self.labels = (BUILD / "test-programs").read_text().splitlines()
        self.unbuilt, self.without_results = [], []
        self.programs = collections.defaultdict(list)  # Programs by test.
        self.reasons = {}  # Why a test of a program does not count as evidence. "" if it counts.
        for program in sorted({entry.partition(".")[0] for entry in entries.split()}):
            path = BUILD / "tests" / program
            if not path.exists():
                self.unbuilt.append(program)
                continue
            listing = subprocess.run([path, "--gtest_list_tests"], stdout=subprocess.PIPE, text=True, check=True)
            for name in set(tests_in(listing.stdout)):
                self.programs[name].append(program)
        for entry in entries.split():
            self.read_results(entry.partition(".")[0], BUILD / "test-results" / entry)

    def read_results(self, program, path):
        built = BUILD / "tests" / program
        if not path.exists() or not built.exists() or path.stat().st_mtime < built.stat().st_mtime:
            self.without_results.append(program)
            return
        for line in path.read_text().splitlines():
            outcome, assertions, full_name = line.split(" ", 2)
            reason = ""
            if outcome != "passed":
                reason = f"{full_name} {outcome}"
            elif int(assertions) == 0:
                reason = f"{full_name} passed without an assertion"
            key = program, test_name(*full_name.split(".", 1))
            self.reasons[key] = self.reasons.get(key) or reason

    def problems_of(self, name):
        """Returns why the test is not evidence. A test must run, pass, and make an assertion, with each parameter."""
        if name not in self.programs:
            return [f"there is no test {name}"]
        return [f"{p}: {self.reasons.get((p, name), name + ' did not run')}" for p in self.programs[name]
                if p not in self.without_results and self.reasons.get((p, name)) != ""]

    def cell(self, names):
        """Returns the tests of each program, for example "program: `Suite.Test`, `Suite.Other`"."""
        by_program = collections.defaultdict(list)
        for name in sorted(names):
            for program in self.programs.get(name, []):
                by_program[program].append(f"`{name}`")
        return "; ".join(f"{program}: {', '.join(by_program[program])}" for program in sorted(by_program))


class Conformance(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.programs = Programs()
        cls.requirements = read_specification()
        cls.tests = collections.defaultdict(set)  # Tests by requirement number.
        for name in cls.programs.programs:
            for number in requirements_in(name):
                cls.tests[number].add(name)
        cls.cited = set(cls.tests)
        for number, names in OTHER_TESTS.items():
            cls.tests[number].update(names)

    def setUp(self):
        self.report("not built", self.programs.unbuilt)
        if self.programs.unbuilt:
            self.skipTest("the names of some tests are not known")

    def report(self, what, programs):
        if programs and STRICT:
            self.fail(f"{what}: {', '.join(programs)}")
        if programs:
            print(f"not judged, {what}: {', '.join(programs)}")

    def document(self):
        tables, section = "", ""
        counts = collections.Counter()
        for r in self.requirements:
            if r.section != section:
                section = r.section
                tables += f"\n## {section}\n\n| Requirement | Result | Tests |\n| --- | --- | --- |\n"
            result = "passed" if self.tests[r.number] else "not tested"
            differs = "**Differs:**" in r.text
            counts.update([result] + differs * ["differs"])
            tables += (f"| [S-{r.number}](specification.md#s-{r.number}) {r.title} | {result}"
                       f"{', differs' * differs} | {self.programs.cell(self.tests[r.number])} |\n")
        upstream = ""
        for area, what, ours in UPSTREAM_TESTS:
            equivalent = self.programs.cell(ours) if isinstance(ours, list) else f"none: {ours}"
            upstream += f"| {area} | {what} | {equivalent} |\n"
        programs = "".join("| {} | {} |\n".format(*label.replace(",", ", ").split("="))
                           for label in self.programs.labels.split())
        return TEXT.format(requirements=len(self.requirements), passed=counts["passed"],
                           not_tested=counts["not tested"], differ=counts["differs"], tables=tables,
                           upstream=upstream, programs=programs)

    def test_tests_cite_existing_requirements(self):
        self.assertLessEqual(self.cited, {r.number for r in self.requirements})

    def test_upstream_tests_have_an_equivalent_or_a_reason(self):
        for _, what, ours in UPSTREAM_TESTS:
            self.assertTrue(ours, what)
            self.assertEqual([p for name in ours if isinstance(ours, list)
                              for p in self.programs.problems_of(name)], [], what)

    def test_every_requirement_is_shown_by_tests_that_ran(self):
        for r in self.requirements:
            names = self.tests[r.number]
            self.assertNotEqual(bool(names), "**Not tested:**" in r.text, f"S-{r.number} {r.title}: {names}")
            self.assertEqual([p for name in names for p in self.programs.problems_of(name)], [], f"S-{r.number}")
        self.report("no current results of", self.programs.without_results)

    def test_the_page_is_up_to_date(self):
        text = self.document()
        if "SVCMAP_UPDATE_DOCS" in os.environ:
            PAGE.write_text(text)
        self.assertTrue(PAGE.read_text() == text, f"{PAGE} is stale: run this test with SVCMAP_UPDATE_DOCS=1")
