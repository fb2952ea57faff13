"""Tests of check.py: text with findings, and text that is not checked."""

import unittest

import check

WORDS = check.read_words("# Roles.\nsomebody => name the actor\nput right => say \"repaired\"\n")


def found(path, text):
    return [(line, word) for line, word, _ in check.word_findings(path, text, WORDS)]


class WordsTest(unittest.TestCase):
    def test_a_word_is_found_with_its_line_and_reason(self):
        self.assertEqual(check.word_findings("docs/a.md", "Fine.\nSomebody calls.\n", WORDS),
                         [(2, "Somebody", "name the actor")])

    def test_a_phrase_continues_on_the_next_line(self):
        self.assertEqual(found("docs/a.md", "Rules are put\nright.\n"), [(1, "put right")])
        self.assertEqual(found("nft/a.cc", "  // Rules are put\n  // right.\n"), [(1, "put right")])

    def test_code_in_markdown_is_not_prose(self):
        self.assertEqual(found("docs/a.md", "Run `somebody`:\n\n    somebody\n\n```\nsomebody\n```\n"),
                         [])
        self.assertEqual(found("docs/a.md", "- item\n\n  somebody\n"), [(3, "somebody")])

    def test_comments_and_strings_of_programs_are_checked_and_identifiers_are_not(self):
        self.assertEqual(found("nft/a.cc", 'int somebody = 1;  // somebody\nLog("by somebody");\n'),
                         [(1, "somebody"), (2, "somebody")])
        self.assertEqual(found("nft/a.cc", 'const char* url = "http://somebody"; Key("somebody");\n'),
                         [])

    def test_strings_of_tests_are_data(self):
        self.assertEqual(found("tests/unit/a.cc", 'Log("by somebody");  // somebody\n'),
                         [(1, "somebody")])

    def test_scripts_and_manifests(self):
        self.assertEqual(found(".ci/a.sh", "#!/bin/somebody\n# somebody\necho somebody\n"),
                         [(2, "somebody")])
        self.assertEqual(found("deploy/a.yaml", "summary: somebody\n"), [(1, "somebody")])

    def test_requirement_numbers_are_for_the_specification(self):
        self.assertEqual(found("docs/a.md", "As in S-12.\n"), [(1, "S-12")])
        self.assertEqual(found("docs/specification.md", "As in S-12.\n"), [])
        self.assertEqual(found("nft/a.cc", "// As in S-12.\n"), [])

    def test_an_entry_without_a_reason_is_an_error(self):
        with self.assertRaises(ValueError):
            check.read_words("somebody\n")


class LinksTest(unittest.TestCase):
    FILES = {"docs/b.md": "# Head & `code`\n\n## Two\n\n## Two\n\n<a id=\"x-1\"></a>\n", "docs/d": ""}

    def broken(self, text):
        return [target for _, target, _ in
                check.link_findings("docs/a.md", text, lambda path: self.FILES.get(path))]

    def test_a_file_has_to_exist(self):
        self.assertEqual(self.broken("[b](b.md) [d](d) [c](c.md) [up](../c.md)"),
                         ["c.md", "../c.md"])

    def test_an_anchor_has_to_be_a_heading_or_an_id(self):
        self.assertEqual(self.broken("[1](b.md#head--code) [2](b.md#two-1) [3](b.md#three) "
                                     "[4](b.md#x-1) [5](b.md#x-2)"),
                         ["b.md#three", "b.md#x-2"])

    def test_other_sites_are_not_looked_up(self):
        self.assertEqual(self.broken("[x](https://example.com/x) `[y](y.md)`"), [])


if __name__ == "__main__":
    unittest.main()
