"""The figures of a run by name, read from samples.csv (see tests/bench/record/recorder.h)."""

import csv
import json
import math
import os
import re
import statistics
from typing import NamedTuple, Optional

COLUMNS = ["workload", "shape", "opponent", "what", "metric", "round", "value"]

# Display order. Other names follow in alphabetical order.
WORKLOADS = ["sync", "change", "churn", "latency", "connections", "restart", "repair"]
OPPONENTS = ["direct", "netlink", "svcmap", "nftables", "nftables-single", "nftables-shared",
             "nftables-library", "iptables-legacy", "iptables-nft", "ipvs"]
WHATS = ["load", "replace", "n-plus-1", "n-minus-1", "new-service", "deleted-service", "rolling",
         "rate-10", "rate-100", "rate-1000", "tcp-first", "tcp-middle", "tcp-last",
         "udp-first", "udp-middle", "udp-last", "tcp-quiet", "tcp-sync", "tcp-repair", "first",
         "middle", "last", "sigterm", "sigkill", "full-sync"]

# The main metric of each workload, which ratios compare. The first available metric of the list is
# used.
HEADLINES = {
    "sync": ["seconds"],
    "change": ["seconds"],
    "churn": ["latency_seconds"],
    "latency": ["p50_us"],
    "connections": ["per_second"],
    "restart": ["healthy_seconds", "seconds"],
    "repair": ["outage_seconds"],
}

# The first step of each workload except `sync`, which measures the load itself. An opponent that
# fails at this step has no figures.
LOAD = "load"

# Differences of two measurements. They are negative if the machine's noise is larger than the
# difference.
DIFFERENCES = {"kernel_memory_kib", "kernel_bytes_per_endpoint", "bytes_per_endpoint"}
NOT_TOLD_APART = "below noise"

MIN_P99_SAMPLES = 100

# The opponent that performs only the necessary minimum.
FLOORS = {"sync": "netlink", "change": "netlink", "latency": "direct", "connections": "direct"}

# Latencies of churn consist mostly of waiting for kube-proxy's minSyncPeriod, 1 s by default. A
# ratio would compare this setting, not the proxies.
WITHOUT_RATIOS = {"churn"}

REFERENCE = "svcmap"


class BadInput(Exception):
    """A file of the run cannot be read. The message contains path, line and reason."""


class Ratio(NamedTuple):
    """`bound` is ">" if the true ratio is higher because the numerator exceeded its limit, "<" if
    it is lower because the denominator did, and "" if `value` is the ratio."""
    value: float
    bound: str


class Figure:
    """All values measured under one name. Each round counts once, however many values it has."""

    def __init__(self):
        self.rounds: dict[int, list[float]] = {}
        self.limit: Optional[float] = None  # The lowest exceeded limit. Also in `rounds`.

    def add(self, number: int, value: float):
        self.rounds.setdefault(number, []).append(value)

    def add_over_limit(self, number: int, limit: float):
        self.add(number, limit)
        self.limit = limit if self.limit is None else min(limit, self.limit)

    @property
    def values(self) -> list[float]:
        return [value for number in sorted(self.rounds) for value in self.rounds[number]]

    @property
    def medians(self) -> dict[int, float]:
        return {number: statistics.median(values) for number, values in self.rounds.items()}

    @property
    def median(self) -> float:
        return statistics.median(self.medians.values())

    @property
    def low(self) -> float:
        return min(self.medians.values())

    @property
    def high(self) -> float:
        return max(self.medians.values())

    @property
    def over_limit(self) -> bool:
        """True if the true median is higher than `median`."""
        return self.limit is not None and self.median >= self.limit

    def percentile(self, percent: float) -> float:
        """Returns the percentile of all values of all rounds. Interpolates linearly, like numpy and
        svcmap-bench (tests/bench/record/statistics.h)."""
        values = sorted(self.values)
        position = percent / 100 * (len(values) - 1)
        below = int(position)
        above = min(below + 1, len(values) - 1)
        return values[below] + (position - below) * (values[above] - values[below])

    def _beside(self, other: "Figure") -> dict[int, tuple[float, float]]:
        """Returns the medians of the rounds that contain both figures, so that both were measured
        at about the same time. If no such round exists or a figure exceeded its limit, returns the
        medians of all rounds as one round."""
        mine, theirs = self.medians, other.medians
        shared = sorted(mine.keys() & theirs.keys())
        if not shared or self.over_limit or other.over_limit:
            return {0: (self.median, other.median)}
        return {number: (mine[number], theirs[number]) for number in shared}

    def ratio_to(self, other: "Figure") -> Optional[Ratio]:
        """Returns the median of the ratios of the rounds, or None if unknown."""
        pairs = self._beside(other).values()
        if (self.over_limit and other.over_limit) or any(below == 0 for _, below in pairs):
            return None
        bound = ">" if self.over_limit else "<" if other.over_limit else ""
        return Ratio(statistics.median(above / below for above, below in pairs), bound)

    def less(self, other: "Figure") -> "Figure":
        """Returns the difference for each round. Neither figure may exceed its limit."""
        difference = Figure()
        for number, (mine, theirs) in self._beside(other).items():
            difference.add(number, mine - theirs)
        return difference


class Run:
    def __init__(self):
        # (workload, shape, opponent, what) -> metric -> figure
        self.figures: dict[tuple, dict[str, Figure]] = {}
        # (workload, shape, opponent, what) -> rounds
        self.over_limit: dict[tuple, set[int]] = {}
        # (workload, shape, opponent) in over_limit or failed.
        self.never_loaded: set[tuple] = set()
        # (workload, shape, opponent, what, metric) without a figure, although values exist.
        self.not_told_apart: set[tuple] = set()
        self.limits: dict[tuple, float] = {}
        self.failed: dict[tuple, set[int]] = {}
        self.not_tried: set[tuple] = set()

    def add(self, workload, shape, opponent, what, metric, number, value):
        name = (workload, shape, opponent, what)
        metrics = self.figures.setdefault(name, {})
        if metric == "over-limit":
            self.over_limit.setdefault(name, set()).add(number)
            self.limits[name] = value
            if self._is_of_load(name, number):
                self.never_loaded.add(name[:3])
            elif workload in ("sync", "change") or what == "full-sync":
                # A limit is a lower bound only for figures that are times.
                metrics.setdefault("seconds", Figure()).add_over_limit(number, value)
        elif metric == "failed":
            self.failed.setdefault(name, set()).add(number)
            if self._is_of_load(name, number):
                self.never_loaded.add(name[:3])
        elif metric == "not-tried":
            self.not_tried.add(name)
        elif value >= 0:
            metrics.setdefault(metric, Figure()).add(number, value)
        elif metric in DIFFERENCES:
            # Without this entry, the median of the other rounds would be too high.
            self.not_told_apart.add((*name, metric))

    @staticmethod
    def _is_of_load(name, number) -> bool:
        """Returns true for the load. In `restart`, it has the name of the step and number 0."""
        return name[0] != "sync" and (name[3] == LOAD or name[0] == "restart" and number == 0)

    def figure(self, workload, shape, opponent, what, metric) -> Optional[Figure]:
        name = (workload, shape, opponent, what)
        if (*name, metric) in self.not_told_apart:
            return None
        return self.figures.get(name, {}).get(metric)

    def headline(self, workload, shape, opponent, what) -> Optional[tuple[str, Figure]]:
        """Returns the main metric and its figure."""
        for metric in HEADLINES.get(workload, ["seconds"]):
            figure = self.figure(workload, shape, opponent, what, metric)
            if figure is not None:
                return metric, figure
        return None

    def why_not(self, workload, shape, opponent, what) -> str:
        """Returns the reason why there is no figure, or "" if unknown."""
        mine = (workload, shape, opponent, what)
        there = [name for name in sorted({*self.over_limit, *self.failed, *self.not_tried})
                 if name[:3] == mine[:3]]
        if mine[:3] in self.never_loaded:
            return next(self.outcome(name) for name in there if self.outcome(name))
        if mine in there:
            return self.outcome(mine)
        # An opponent that exceeded its limit or failed does not take part in later steps.
        return "not tried" if there else ""

    def outcome(self, name) -> str:
        """Returns the outcome of a step that has no figure, or not in all rounds."""
        if name[:3] in self.never_loaded:
            if name in self.over_limit:
                return f"not loaded in {self.limits[name]:g} s"
            return "not loaded" if name in self.failed else ""
        if name in self.over_limit:
            return f"over {self.limits[name]:g} s"
        return "failed" if name in self.failed else "not tried"

    def _distinct(self, field, order, **wanted):
        """Returns the values of `field` in all names whose other fields equal `wanted`."""
        fields = ["workload", "shape", "opponent", "what"]
        found = {name[fields.index(field)] for name in self.figures
                 if all(name[fields.index(other)] == wanted[other] for other in wanted)}
        return sorted(found, key=order)

    def workloads(self):
        return self._distinct("workload", lambda name: _rank(WORKLOADS, name))

    def shapes(self, **wanted):
        return self._distinct("shape", shape_order, **wanted)

    def opponents(self, **wanted):
        return self._distinct("opponent", lambda name: _rank(OPPONENTS, name), **wanted)

    def whats(self, **wanted):
        return self._distinct("what", lambda name: _rank(WHATS, name), **wanted)

    def samples(self, workload, shape, opponent, what, metric) -> int:
        """Returns the number of measured operations behind the figure, in all rounds."""
        counts = self.figure(workload, shape, opponent, what, "count")
        each = HEADLINES["churn"][0] if workload == "churn" else metric
        figure = counts or self.figure(workload, shape, opponent, what, each)
        return 0 if figure is None else round(sum(counts.values)) if counts else len(figure.values)

    def p99(self, workload, shape, opponent, what, metric) -> Optional[float]:
        """Returns the p99 of all samples, or the median of the rounds' p99 if only these are
        recorded. Returns None if there are too few samples."""
        name = (workload, shape, opponent, what)
        if self.samples(*name, metric) < MIN_P99_SAMPLES:
            return None
        told = self.figure(*name, "p99_us")
        if told is not None:
            return told.median
        figure = self.figure(*name, metric)
        return figure.percentile(99) if figure and len(figure.values) >= MIN_P99_SAMPLES else None

    def rounds(self, workload) -> int:
        return max((len(figure.rounds) for name, metrics in self.figures.items()
                    if name[0] == workload for figure in metrics.values()), default=0)


def _rank(order, name):
    return (order.index(name) if name in order else len(order), name)


class Shape(NamedTuple):
    services: int
    endpoints: int
    mix: str  # Empty for plain clusters.


def parse_shape(text: str) -> Optional[Shape]:
    """Parses "10000x10" or "10000x10-mixed". Returns None for any other text."""
    match = re.fullmatch(r"(\d+)x(\d+)(?:-(.+))?", text)
    return Shape(int(match[1]), int(match[2]), match[3] or "") if match else None


def shape_order(text: str):
    shape = parse_shape(text)
    if shape is None:
        return (1, 0, 0, text)
    return (0, shape.services * shape.endpoints, shape.services, shape.mix)


def read_run(folder: str) -> Run:
    path = os.path.join(folder, "samples.csv")
    run = Run()
    try:
        with open(path, encoding="utf-8", newline="") as file:
            lines = csv.reader(file)
            if next(lines, None) != COLUMNS:
                raise BadInput(f"{path}:1: the first line is not {','.join(COLUMNS)}")
            for line in lines:
                where = f"{path}:{lines.line_num}"
                if len(line) != len(COLUMNS):
                    raise BadInput(f"{where}: {len(line)} fields instead of {len(COLUMNS)}")
                try:
                    number, value = int(line[5]), float(line[6])
                except ValueError as error:
                    raise BadInput(f"{where}: {error}") from error
                if not math.isfinite(value):
                    raise BadInput(f"{where}: value {line[6]} is no figure")
                run.add(*line[:5], number, value)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    return run


def read_json(path: str):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from error
