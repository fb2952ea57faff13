#!/usr/bin/python3
"""Writes the manual page of a program from its --help output.

usage: man_pages.py PROGRAM SECTION VERSION OUTPUT

The --help output comes from the definitions of the options, so the manual page lists every command
and option.
"""
import re
import subprocess
import sys
from pathlib import Path

SEE_ALSO = {
    "svcmapd": "svcmapctl(1), svcmap-kube(8), nft(8)",
    "svcmapctl": "svcmapd(8), svcmap-kube(8)",
    "svcmap-kube": "svcmapd(8), svcmapctl(1)",
    "svcmap-etcd": "svcmapd(8), svcmapctl(1)",
    "svcmap-bench": "svcmapd(8)",
    "svcmap-protocol-check": "svcmapd(8)",
}


def help_of(program, *command):
    """Returns the --help output of a program or of one of its commands."""
    return subprocess.run(
        [program, *command, "--help"], check=True, capture_output=True, text=True
    ).stdout


class Help:
    """The parts of a --help output: description, usage, lists of items, and the remaining text."""

    def __init__(self, text):
        lines = text.rstrip("\n").split("\n")
        usage = next(i for i, line in enumerate(lines) if line.startswith("Usage: "))
        self.description = " ".join(lines[:usage]).strip()
        self.usage = lines[usage].removeprefix("Usage: ")
        self.lists = {}  # "Options": [(term, text)]
        self.rest = []
        title = None
        for line in lines[usage + 1 :]:
            heading = re.fullmatch(r"(Positionals|Options|Subcommands):", line)
            if heading and not self.rest:
                title = heading[1]
                self.lists[title] = []
            elif title and line.startswith("  "):
                self.add(self.lists[title], line)
            elif not line and title:
                title = None
            elif line or self.rest:
                self.rest.append(line)

    @staticmethod
    def add(items, line):
        """Adds an item, or a further line of the last item's text."""
        if line.startswith(" " * 10):
            term, text = items.pop()
            items.append((term, f"{text} {line.strip()}".strip()))
            return
        # The text starts in column 30, or in the next line after a long term.
        term, text = line.strip(), ""
        if len(line) > 30 and line[29] == " ":
            term, text = line[:30].strip(), line[30:].strip()
        items.append((term, text))


def quote(text):
    """Escapes the characters that roff interprets."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\\&" + text if text.startswith(".") else text


def quote_term(term):
    """Formats "-o,--output FORMAT" with the names of the option in bold."""
    names, _, value = term.partition(" ")
    bold = ", ".join(f"\\fB{quote(name)}\\fR" for name in names.split(","))
    # Long lists of values may be broken after a comma.
    return f"{bold} {quote(value)}".strip().replace(",", ",\\:")


def items(page, entries):
    for term, text in entries:
        page += [".TP", quote_term(term), quote(text) if text else ""]


def literal(page, lines):
    """Adds lines without filling. A short line such as "Examples:" is a heading."""
    block = []

    def flush():
        if any(block):
            page.extend([".PP", ".nf", *(quote(line) for line in block), ".fi"])
        block.clear()

    for line in lines:
        if re.fullmatch(r"[A-Z][A-Za-z ]{,20}:", line):
            flush()
            page.extend([".PP", f"\\fB{quote(line)}\\fR"])
        elif line:
            block.append(line)
        else:
            flush()
    flush()


def add_command(page, program, *command):
    """Adds a command and its subcommands."""
    text = Help(help_of(program, *command))
    page += [f'.SS "{" ".join(command)}"', quote(text.description), ".PP", f"\\fB{quote(text.usage)}\\fR"]
    # Every command has the same option --help.
    options = [item for item in text.lists.get("Options", []) if "--help" not in item[0]]
    items(page, text.lists.get("Positionals", []) + options)
    literal(page, text.rest)
    for name, _ in text.lists.get("Subcommands", []):
        add_command(page, program, *command, name)


def manual_page(program, section, version):
    name = Path(program).name
    top = Help(help_of(program))
    summary = top.description.split(". ")[0].rstrip(".")
    page = [
        f'.TH "{name.upper()}" "{section}" "" "svcmap {version}" "svcmap"',
        # Left-aligned text without hyphenation.
        ".ad l",
        ".nh",
        ".SH NAME",
        f"{quote(name)} \\- {quote(summary[0].lower() + summary[1:])}",
        ".SH SYNOPSIS",
        f"\\fB{quote(name)}\\fR {quote(top.usage.removeprefix(name).strip())}",
        ".SH DESCRIPTION",
        quote(top.description),
        ".SH OPTIONS",
    ]
    items(page, top.lists.get("Options", []))
    commands = top.lists.get("Subcommands", [])
    if commands:
        page.append(".SH COMMANDS")
    for command, _ in commands:
        add_command(page, program, command)
    if top.rest:
        page.append(".SH NOTES")
        literal(page, top.rest)
    page += [".SH SEE ALSO", quote(SEE_ALSO[name])]
    return "\n".join(page) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    Path(sys.argv[4]).write_text(manual_page(*sys.argv[1:4]), encoding="utf-8")
