#!/usr/bin/python3
"""Checks words and links of the repository; see .ci/prose.sh.

Words: the word list applies to the prose of Markdown files (not to code blocks and `code`), comments
of all sources, user-visible strings (nft/, proxy/, api/), .proto files, and all text of deploy/.
Links: each relative link in a Markdown file must lead to an existing file, and its #anchor to a
heading or an `<a id>` of that file."""

import functools
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

# Data, and the word list itself.
SKIPPED = ("tests/fuzz/corpus/", ".ci/prose/", "LICENSE")
# Strings in these folders reach users. Strings of tests are test data.
STRINGS = ("nft/", "proxy/", "api/")
# Only these documents list requirement numbers; everything else describes the behaviour.
NUMBERED = ("docs/specification.md", "docs/conformance.md")
NUMBER = re.compile(r"\bS-\d+\b")
NUMBER_REASON = "requirement numbers belong into docs/specification.md: describe the behaviour"


def read_words(text: str):
    """Returns the entries of words.txt as a list of (regular expression, reason)."""
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        pattern, arrow, reason = line.partition(" => ")
        if not arrow or not reason.strip():
            raise ValueError(f"words.txt:{number}: expected 'pattern => reason'")
        # A phrase may continue on the next line.
        pattern = pattern.replace(" ", r"\s+")
        entries.append((re.compile(rf"\b(?:{pattern})(?!\w)", re.IGNORECASE), reason.strip()))
    return entries


def blank(match) -> str:
    """Returns the matched text with all characters except newlines replaced by spaces."""
    return re.sub(r"[^\n]", " ", match.group(0))


def markdown_prose(text: str) -> str:
    """Blanks fenced and indented code, `code`, HTML comments and link targets."""
    text = re.sub(r"^```.*?^```", blank, text, flags=re.S | re.M)
    text = re.sub(r"<!--.*?-->", blank, text, flags=re.S)
    # Four spaces after a blank line begin a code block, unless a list is open.
    lines, code, in_list, empty = [], False, False, True
    for line in text.split("\n"):
        stripped = line.strip()
        if not stripped:
            empty = True
        else:
            if not line.startswith(" "):
                in_list = bool(re.match(r"([-*]|\d+\.) ", line))
            indent = len(line) - len(line.lstrip(" "))
            code = indent >= (8 if in_list else 4) and (code or empty)
            empty = False
        lines.append("" if code else line)
    text = "\n".join(lines)
    text = re.sub(r"``.*?``|`[^`]*`", blank, text, flags=re.S)
    return re.sub(r"\]\([^)]*\)", lambda match: "]" + " " * (len(match.group(0)) - 1), text)


_CXX = re.compile(
    r'(?P<raw>R"(?P<mark>[^(\s]*)\((?P<rawtext>.*?)\)(?P=mark)")'
    r'|(?P<string>"(?:[^"\\\n]|\\.)*")'
    r"|(?P<char>'(?:[^'\\\n]|\\.)+')"
    r"|(?P<comment>//[^\n]*|/\*.*?\*/)", re.S)


def cxx_parts(text: str, strings: bool) -> str:
    """Blanks everything except comments, and strings that contain a space."""
    kept, at = [], 0
    for match in _CXX.finditer(text):
        kept.append(re.sub(r"[^\n]", " ", text[at:match.start()]))
        part = match.group(0)
        wanted = match.group("comment") or \
            strings and (match.group("string") or match.group("raw")) and " " in part
        # Blanks the comment marks, because a phrase may continue on the next comment line.
        kept.append(re.sub(r"//|/\*|\*/", blank, part) if wanted else
                    re.sub(r"[^\n]", " ", part))
        at = match.end()
    kept.append(re.sub(r"[^\n]", " ", text[at:]))
    return "".join(kept)


def hash_comments(text: str) -> str:
    """Blanks everything except the # comments of shell, Python, CMake and YAML."""
    kept = []
    for line in text.split("\n"):
        match = re.search(r"(?:^|\s)(#(?!!).*)$", line)
        kept.append(" " * match.start(1) + " " + match.group(1)[1:] if match else "")
    return "\n".join(kept)


def prose_of(path: str, text: str) -> str:
    """Returns the text of a file with all unchecked parts blanked, or "" if nothing is checked."""
    if path.startswith(SKIPPED):
        return ""
    if path.endswith(".md"):
        return markdown_prose(text)
    if path.endswith((".cc", ".h", ".proto")):
        return cxx_parts(text, path.startswith(STRINGS))
    if path.startswith("deploy/") and path.endswith((".yaml", ".json")):
        return text
    if path.endswith((".yaml", ".py", ".sh", ".cmake", ".txt", ".conf", ".service", ".clang-tidy",
                      "Makefile", "Dockerfile", ".ci/run")):
        return hash_comments(text)
    return ""


def word_findings(path: str, text: str, words):
    """Returns a list of (line, word, reason)."""
    prose = "\n".join(" ".join(line.split()) for line in prose_of(path, text).split("\n"))
    if not prose.strip():
        return []
    findings = []
    for pattern, reason in words:
        for match in pattern.finditer(prose):
            findings.append((prose.count("\n", 0, match.start()) + 1,
                             " ".join(match.group(0).split()), reason))
    if path.endswith(".md") and path not in NUMBERED:
        for match in NUMBER.finditer(prose):
            findings.append((prose.count("\n", 0, match.start()) + 1, match.group(0),
                             NUMBER_REASON))
    return sorted(findings)


@functools.lru_cache(maxsize=None)
def anchors(text: str):
    """Returns the anchors of a page: `<a id="name"></a>`, and GitHub's anchors of headings."""
    found, count = set(re.findall(r'<a id="([^"]+)"></a>', text)), {}
    for line in re.sub(r"^```.*?^```", "", text, flags=re.S | re.M).splitlines():
        match = re.match(r"#+ +(.*?) *#*$", line)
        if not match:
            continue
        title = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", match.group(1)).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        number = count.get(slug, 0)
        count[slug] = number + 1
        found.add(f"{slug}-{number}" if number else slug)
    return found


def link_findings(path: str, text: str, read):
    """Returns a list of (line, target, reason). `read` returns the text of a file, "" for a directory,
    or None if the path does not exist."""
    findings = []
    visible = re.sub(r"^```.*?^```|`[^`\n]*`", blank, text, flags=re.S | re.M)
    for match in re.finditer(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)", visible):
        target = match.group(1)
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        there = read(file)
        line = text.count("\n", 0, match.start()) + 1
        if there is None:
            findings.append((line, target, "no such file"))
        elif anchor and file.endswith(".md") and anchor not in anchors(there):
            findings.append((line, target, f"{file} has no heading with this anchor"))
    return findings


def read_file(path: str):
    if os.path.isdir(path):
        return ""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # Links can refer to pictures.
            return file.read()
    except FileNotFoundError:
        return None


def main() -> int:
    with open(os.path.join(HERE, "words.txt"), encoding="utf-8") as file:
        words = read_words(file.read())
    chosen = sys.argv[1:]
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard",
                             "--", *chosen], check=True, capture_output=True).stdout
    count = 0
    for path in sorted(listed.decode().split("\0")):
        if not path or not os.path.isfile(path) or path.startswith(SKIPPED):
            continue
        try:
            text = read_file(path)
        except UnicodeDecodeError:
            continue
        findings = word_findings(path, text, words)
        if path.endswith(".md"):
            findings += link_findings(path, text, read_file)
        for line, word, reason in sorted(findings):
            print(f"{path}:{line}: {word}: {reason}")
        count += len(findings)
    if count:
        print(f"prose: {count} findings", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
