#!/usr/bin/python3
"""Checks the samples of a run against bounds. Prints a line for each bound and a summary as the
last line. Exits with status 1 if a bound is missed, and with 2 if the files cannot be read.
Requires only Python."""

import argparse
import os
import sys

import bounds
import figures


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="of a run, with samples.csv")
    parser.add_argument("--bounds", default=os.path.join(os.path.dirname(__file__), "bounds.json"),
                        help="default: bounds.json beside this program")
    options = parser.parse_args(arguments)
    try:
        run = figures.read_run(options.folder)
        name, wanted = bounds.read_bounds(options.bounds)
    except figures.BadInput as error:
        print(f"check.py: {error}", file=sys.stderr)
        return 2
    verdicts = [bounds.judge(run, bound) for bound in wanted]
    for verdict in verdicts:
        print(verdict.line())
    print(bounds.summary(name, verdicts))
    return 0 if all(verdict.met for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
