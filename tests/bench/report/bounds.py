"""Bounds of a run: ratios and differences between its figures, and absolute targets.

A bound is an object with these fields:
  "label"     the name of the bound
  "figure"    "workload/shape/opponent/what/metric" for the median, "...@p99" for that percentile
  "to"        optional: the figure by which "figure" is divided
  "minus"     optional: the figure that is subtracted from "figure"
  "at_most", "at_least"   one of these limits
  "summary"   optional: text for the last line, such as "sync {} faster than nftables"
"""

from typing import NamedTuple, Optional

import units
from figures import (MIN_P99_SAMPLES, NOT_TOLD_APART, BadInput, Figure, Ratio, Run,
                     read_json)

FIELDS = {"label", "figure", "to", "minus", "at_most", "at_least", "summary"}


class Verdict(NamedTuple):
    bound: dict
    met: bool
    seen: str      # "14x", "over 120 s", "not measured"
    wanted: str    # "at least 8x"
    why: str = ""  # The reason why the figure is missing.

    def line(self) -> str:
        why = f" ({self.why})" if self.why else ""
        return f"{'met   ' if self.met else 'MISSED'} {self.bound['label']}: {self.seen}{why}, " \
               f"required: {self.wanted}"


def read_bounds(path: str) -> tuple[str, list[dict]]:
    """Returns the name of the bounds and the bounds."""
    stored = read_json(path)
    for bound in stored["bounds"]:
        label = bound.get("label", bound)
        unknown = set(bound) - FIELDS
        if unknown:
            raise BadInput(f"{path}: {label}: unknown field {sorted(unknown)[0]}")
        if "label" not in bound or "figure" not in bound:
            raise BadInput(f"{path}: {label}: label and figure are needed")
        if ("at_most" in bound) == ("at_least" in bound):
            raise BadInput(f"{path}: {label}: one of at_most and at_least is needed")
        if "to" in bound and "minus" in bound:
            raise BadInput(f"{path}: {label}: to and minus exclude each other")
        for field in ("figure", "to", "minus"):
            if field in bound and bound[field].count("/") != 4:
                raise BadInput(f"{path}: {label}: {field} '{bound[field]}' is not "
                               "workload/shape/opponent/what/metric")
    return stored["name"], stored["bounds"]


def _named(run: Run, name: str) -> tuple[Optional[Figure], str, Optional[float]]:
    """Returns the figure, its metric and the requested percentile, which requires enough samples."""
    *where, metric = name.split("/")
    metric, _, percentile = metric.partition("@p")
    figure = run.figure(*where, metric)
    if percentile and figure is not None and len(figure.values) < MIN_P99_SAMPLES:
        figure = None
    return figure, metric, float(percentile) if percentile else None


def _value(figure: Figure, percentile: Optional[float]) -> tuple[float, bool]:
    """Returns the value, and whether the true value is higher than it."""
    if percentile is None:
        return figure.median, figure.over_limit
    value = figure.percentile(percentile)
    return value, figure.limit is not None and value >= figure.limit


def _ratio(above: Figure, p_above, below: Figure, p_below) -> Optional[Ratio]:
    if p_above is None and p_below is None:
        return above.ratio_to(below)
    high, high_open = _value(above, p_above)
    low, low_open = _value(below, p_below)
    if low == 0 or (high_open and low_open):
        return None
    return Ratio(high / low, ">" if high_open else "<" if low_open else "")


def _difference(figure: Figure, percentile, other: Figure, other_percentile) -> Optional[Ratio]:
    value, is_open = _value(figure, percentile)
    less, less_open = _value(other, other_percentile)
    if is_open and less_open:
        return None
    if is_open or less_open:
        return Ratio(value - less, ">" if is_open else "<")
    if percentile is None and other_percentile is None:
        return Ratio(figure.less(other).median, "")
    return Ratio(value - less, "")


def judge(run: Run, bound: dict) -> Verdict:
    figure, metric, percentile = _named(run, bound["figure"])
    limit = bound.get("at_most", bound.get("at_least"))
    show = units.ratio if "to" in bound else lambda value: units.text(metric, value)
    wanted = f"{'at most' if 'at_most' in bound else 'at least'} {show(limit)}"
    other = bound.get("to") or bound.get("minus")
    other_figure, _, other_percentile = _named(run, other) if other else (None, None, None)

    seen = None
    if figure is not None and (other is None or other_figure is not None):
        if "to" in bound:
            seen = _ratio(figure, percentile, other_figure, other_percentile)
        elif "minus" in bound:
            seen = _difference(figure, percentile, other_figure, other_percentile)
        else:
            value, is_open = _value(figure, percentile)
            seen = Ratio(value, ">" if is_open else "")
    if seen is None:
        # A missing figure does not meet its bound.
        return Verdict(bound, False, "not measured", wanted, _why(run, bound, other))
    # A figure over its time limit counts as the limit, unless this favours svcmap.
    if "at_most" in bound:
        met = seen.value <= limit and seen.bound != ">"
    else:
        met = seen.value >= limit and seen.bound != "<"
    prefix = {">": "over ", "<": "under ", "": ""}[seen.bound]
    return Verdict(bound, met, prefix + show(seen.value), wanted)


def _why(run: Run, bound: dict, other: Optional[str]) -> str:
    for name in filter(None, (bound["figure"], other)):
        *where, metric = name.split("/")
        if (*where, metric) in run.not_told_apart:
            return f"{NOT_TOLD_APART}: {name}"
        if _named(run, name)[0] is None:
            few = run.figure(*where, metric.partition("@")[0]) is not None
            reason = f"fewer than {MIN_P99_SAMPLES} samples" if few else run.why_not(*where)
            return f"{reason or 'no samples'}: {name}"
    return "divided by zero, or both were over their limit"


def summary(name: str, verdicts: list[Verdict]) -> str:
    met = [verdict for verdict in verdicts if verdict.met]
    missed = [verdict for verdict in verdicts if not verdict.met]
    line = f"svcmap-bench {name}: {len(met)} of {len(verdicts)} bounds met"
    if missed:
        return line + ", MISSED: " + "; ".join(
            f"{verdict.bound['label']} {verdict.seen}" +
            ("" if verdict.why else f" (required: {verdict.wanted})")
            for verdict in missed)
    said = [verdict.bound["summary"].format(verdict.seen) for verdict in met
            if "summary" in verdict.bound]
    return line + (": " + ", ".join(said) if said else "")
