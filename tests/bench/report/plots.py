"""Plots the figures of a run as SVG files with a white background. The same figures give the same
bytes. Each file is as wide as the text column of a documentation page, so that pages do not scale it
down. Opponents differ in colour (Okabe and Ito), marker and hatching."""

import math
import os
import textwrap

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as pyplot  # noqa: E402  After the choice of a backend.
from matplotlib.container import ErrorbarContainer  # noqa: E402
from matplotlib.legend_handler import HandlerTuple  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402
from matplotlib.path import Path  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: E402
from matplotlib.transforms import offset_copy  # noqa: E402

import units  # noqa: E402
from figures import FLOORS, HEADLINES, REFERENCE, Run, parse_shape  # noqa: E402

WIDTH = 8.6  # Inches, 826 pixels in a browser.
PANEL_HEIGHT = 3.1
FONT = 10  # Points.

# Colour, marker, line and hatching. No other part of a plot uses these markers.
STYLES = {
    "svcmap": ("#0072B2", "o", "-", ""),
    "nftables": ("#D55E00", "s", "-", "/"),
    "nftables-single": ("#56B4E9", "<", "-", "\\"),
    "nftables-shared": ("#CC79A7", "v", "-", "+"),
    "nftables-library": ("#999999", ">", "--", "x"),
    "iptables-legacy": ("#009E73", "D", "-", "-"),
    "iptables-nft": ("#E69F00", "p", "-", "|"),
    "netlink": ("#000000", "+", ":", "+"),
    "direct": ("#7f7f7f", "x", ":", "\\\\"),
}
OTHER_STYLE = ("#F0E442", "H", "-", "||")
LABELS = {"netlink": "netlink (lower bound)", "direct": "direct (no proxy)"}

OVER_LIMIT = Path([(0, -0.5), (0, 0.5), (-0.25, 0.15), (0, 0.5), (0.25, 0.15)],
                  [Path.MOVETO, Path.LINETO, Path.MOVETO, Path.LINETO, Path.LINETO])  # An arrow.
WHISKER = Path([(0, -0.5), (0, 0.5), (-0.25, 0.5), (0.25, 0.5), (-0.25, -0.5), (0.25, -0.5)],
               [Path.MOVETO, Path.LINETO] * 3)

STEPS = {
    "replace": "endpoint\nreplaced",
    "n-plus-1": "endpoint\nadded",
    "n-minus-1": "endpoint\nremoved",
    "new-service": "Service\nadded",
    "deleted-service": "Service\ndeleted",
    "rolling": "10 of 1,000\nendpoints",
}

matplotlib.rcParams.update({
    "svg.fonttype": "none",
    "svg.hashsalt": "svcmap",
    "font.family": "sans-serif",
    "font.size": FONT,
    "axes.titlesize": FONT,
    "axes.titleweight": "bold",
    "xtick.labelsize": FONT - 1,
    "ytick.labelsize": FONT - 1,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "savefig.facecolor": "white",
})


def _style(opponent):
    return STYLES.get(opponent, OTHER_STYLE)


def _cluster(shape):
    """Returns "10,000 Services with 10 endpoints each" for 10000x10."""
    parsed = parse_shape(shape)
    if parsed is None:
        return shape
    return f"{parsed.services:,} Services with {parsed.endpoints:,} endpoints each" + \
        (f", mix {parsed.mix}" if parsed.mix else "")


def _in_order(series):
    """Returns the items with svcmap first, and the lower bounds last."""
    known = list(STYLES)
    return sorted(series.items(), key=lambda item: known.index(item[0]) if item[0] in known
                  else len(known))


def _y_axis(axes, metric, figures, logarithmic):
    """Labels the ticks with their unit, with enough ticks to read values on a logarithmic scale."""
    if logarithmic and figures:
        # Ticks of memory sizes are powers of two.
        base = 2 if metric.endswith("_kib") else 10
        low = min(figure.median for figure in figures)
        high = max(max(figure.high, figure.median * (6 if figure.over_limit else 1))
                   for figure in figures)
        bottom = base ** math.floor(math.log(low * 0.95, base))
        axes.set_yscale("log", base=base)
        axes.set_ylim(bottom, high * 1.2)
        close = base == 10 and high / bottom < 500
        axes.yaxis.set_major_locator(LogLocator(base, subs=(1, 2, 5) if close else (1,)))
    else:
        axes.set_ylim(bottom=min([0, *(figure.low for figure in figures)]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.text(metric, value)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _title(axes, title):
    axes.set_title(textwrap.fill(title, 68), loc="left")


def _whiskers(figures):
    return [[figure.median - figure.low for figure in figures],
            [figure.high - figure.median for figure in figures]]


def _over_limit(axes, x, figure, colour):
    if figure.over_limit:
        axes.plot([x], [figure.median], marker=OVER_LIMIT, markersize=13, color=colour,
                  fillstyle="none", markeredgewidth=1.4, clip_on=False, gid="over-limit",
                  transform=offset_copy(axes.transData, axes.figure, y=11, units="points"))


def _lines(axes, title, metric, series, logarithmic=True, x_label="Number of Services"):
    """`series` maps an opponent to [(x, figure)]. The x axis is logarithmic."""
    for opponent, points in _in_order(series):
        colour, mark, line, _ = _style(opponent)
        xs = [x for x, _ in points]
        figures = [figure for _, figure in points]
        axes.errorbar(xs, [figure.median for figure in figures], yerr=_whiskers(figures),
                      color=colour, marker=mark, markersize=6, linewidth=1.4, linestyle=line,
                      capsize=3, label=opponent)
        for x, figure in points:
            _over_limit(axes, x, figure, colour)
    _title(axes, title)
    axes.set_xscale("log")
    xs = sorted({x for points in series.values() for x, _ in points})
    axes.set_xticks(xs, [f"{x:,}" for x in xs])
    axes.set_xlabel(x_label)
    axes.minorticks_off()
    _y_axis(axes, metric, [figure for points in series.values() for _, figure in points],
            logarithmic)


def _bars(axes, title, metric, groups, series, logarithmic=True, x_label="", why_not=None):
    """`series` maps an opponent to {group: figure}. `why_not` returns the text in place of a bar."""
    width = min(0.84 / len(series), 0.25)
    left = -width * len(series) / 2
    for index, (opponent, figures) in enumerate(_in_order(series)):
        colour, _, _, hatch = _style(opponent)
        there = [group for group in groups if group in figures]
        xs = [groups.index(group) + left + (index + 0.5) * width for group in there]
        axes.bar(xs, [figures[group].median for group in there], width * 0.92, color=colour,
                 hatch=hatch, edgecolor="white", linewidth=0, label=opponent,
                 yerr=_whiskers([figures[group] for group in there]),
                 error_kw={"elinewidth": 0.9, "capsize": 2, "ecolor": "#444444"})
        for x, group in zip(xs, there):
            _over_limit(axes, x, figures[group], colour)
        for group in groups if why_not else ():
            if group in figures:
                continue
            axes.text(groups.index(group) + left + (index + 0.5) * width, 0.02,
                      why_not(group, opponent), transform=axes.get_xaxis_transform(),
                      rotation=90, ha="center", va="bottom", fontsize=FONT - 1)
    _title(axes, title)
    axes.set_xticks(range(len(groups)), [STEPS.get(group, group.replace("-", "\n", 1))
                                         for group in groups])
    axes.set_xlabel(x_label)
    axes.set_xlim(-0.6, len(groups) - 0.4)
    axes.grid(False, axis="x")
    _y_axis(axes, metric, [figure for figures in series.values() for figure in figures.values()],
            logarithmic)


def _explained(mark):
    return Line2D([], [], color="#444444", marker=mark, markersize=13, fillstyle="none",
                  linestyle="none")


def _legend(figure, all_axes):
    """Explains the opponents, whiskers and arrows at the right of the panels."""
    shown: dict[str, dict[type, object]] = {}
    for axes in all_axes:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            # The line without its whiskers.
            mark = handle[0] if isinstance(handle, ErrorbarContainer) else handle
            shown.setdefault(label, {}).setdefault(type(handle), mark)
    entries = [(LABELS.get(label, label), tuple(handles.values()))
               for label, handles in _in_order(shown)]
    entries.append(("lowest and highest round", _explained(WHISKER)))
    if any(line.get_gid() == "over-limit" for axes in all_axes for line in axes.lines):
        entries.append(("over the time limit:\nthe true value is higher", _explained(OVER_LIMIT)))
    labels, handles = zip(*entries)
    figure.legend(handles, labels, loc="upper right", bbox_to_anchor=(1, 0.97), fontsize=FONT - 1,
                  labelspacing=0.8, handler_map={tuple: HandlerTuple(ndivide=None)})


class Plots:
    def __init__(self, run: Run, folder: str):
        self._run = run
        self._folder = folder
        self.written: dict[str, list[tuple[str, str]]] = {}  # workload -> file and caption

    def write(self):
        self._sync()
        self._change()
        self._churn()
        self._latency()
        self._connections()
        self._memory()

    def _save(self, workload, name, caption, panels):
        """`panels` contains functions that draw into axes."""
        if not panels:
            return
        height = PANEL_HEIGHT * len(panels)
        figure, all_axes = pyplot.subplots(len(panels), 1, figsize=(WIDTH, height), squeeze=False)
        for axes, draw in zip(all_axes[:, 0], panels):
            draw(axes)
        _legend(figure, all_axes[:, 0])
        figure.tight_layout(rect=(0, 0, 0.755, 1), h_pad=2)
        figure.savefig(os.path.join(self._folder, name),
                       metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
        pyplot.close(figure)
        self.written.setdefault(workload, []).append((name, caption))

    def _by_size(self, workload, what, metric, endpoints=10):
        """Returns opponent -> [(Services, figure)] for plain clusters of this endpoint count."""
        series = {}
        for opponent in self._run.opponents(workload=workload, what=what):
            points = []
            for text in self._run.shapes(workload=workload, what=what, opponent=opponent):
                shape = parse_shape(text)
                figure = self._run.figure(workload, text, opponent, what, metric)
                if shape and shape.endpoints == endpoints and not shape.mix and figure \
                        and figure.median > 0:
                    points.append((shape.services, figure))
            if points:
                series[opponent] = points
        return series

    def _by_group(self, workload, names, metric):
        """`names` maps a group to (shape, what). Returns opponent -> {group: figure}."""
        series = {}
        for opponent in self._run.opponents(workload=workload):
            figures = {}
            for group, (shape, what) in names.items():
                figure = self._run.figure(workload, shape, opponent, what, metric)
                if figure and figure.median > 0:
                    figures[group] = figure
            if figures:
                series[opponent] = figures
        return series

    def _fullest_shape(self, workload):
        """Returns the largest of the shapes for which most opponents have figures."""
        shapes = self._run.shapes(workload=workload)
        return max(shapes, default=None, key=lambda shape: (
            sum(any(self._run.headline(workload, shape, opponent, what)
                    for what in self._run.whats(workload=workload, shape=shape))
                for opponent in self._run.opponents(workload=workload, shape=shape)),
            shapes.index(shape)))

    def _sync(self):
        panels = []
        series = self._by_size("sync", "load", "seconds")
        if series:
            panels.append(lambda axes: _lines(
                axes, "Time to load Services with 10 endpoints each into an empty node",
                "seconds", series))
        rest = {text: (text, "load") for text in self._run.shapes(workload="sync", what="load")
                if not (shape := parse_shape(text)) or shape.endpoints != 10 or shape.mix}
        other = self._by_group("sync", rest, "seconds")
        if other:
            panels.append(lambda axes: _bars(
                axes, "Time to load clusters of several shapes into an empty node", "seconds", list(rest),
                other, x_label="Services x endpoints of each Service",
                why_not=lambda shape, opponent: self._run.why_not("sync", shape, opponent, "load")))
        self._save("sync", "sync.svg", "Time to load all Services into an empty node", panels)

    def _change(self):
        shape = self._fullest_shape("change")
        if shape is None:
            return
        names = {what: (shape, what) for what in self._run.whats(workload="change", shape=shape)}
        kinds = self._by_group("change", names, "seconds")
        groups = [name for name in names if any(name in figures for figures in kinds.values())]
        if kinds:
            title = f"Time from an update to its kernel commit, {_cluster(shape)}"
            self._save("change", "change-kinds.svg", title, [
                lambda axes: _bars(axes, title, "seconds", groups, kinds)])
        sizes = self._by_size("change", "replace", "seconds")
        if sizes:
            by_size = "Time to replace one endpoint, by number of Services with 10 endpoints each"
            self._save("change", "change-size.svg", by_size, [
                lambda axes: _lines(axes, by_size, "seconds", sizes)])

    def _churn(self):
        shape = self._fullest_shape("churn")
        if shape is None:
            return
        panels = []
        for title, metric in (("CPU at a fixed rate of changes, in percent of one core",
                               "cpu_share"),
                              ("Median time from a change to its kernel commit",
                               "latency_p50_seconds"),
                              ("99th percentile of the time from a change to its kernel commit",
                               "latency_p99_seconds")):
            p99 = metric == "latency_p99_seconds"
            series = {}
            for opponent in self._run.opponents(workload="churn", shape=shape):
                points = []
                for what in self._run.whats(workload="churn", shape=shape, opponent=opponent):
                    rate = what.removeprefix("rate-")
                    figure = self._run.figure("churn", shape, opponent, what, metric)
                    enough = not p99 or self._run.p99("churn", shape, opponent, what,
                                                      HEADLINES["churn"][0]) is not None
                    if rate.isdigit() and figure and figure.median > 0 and enough:
                        points.append((int(rate), figure))
                if points:
                    series[opponent] = sorted(points, key=lambda point: point[0])
            if series:
                panels.append(lambda axes, series=series, title=title, metric=metric: _lines(
                    axes, f"{title}, {_cluster(shape)}", metric, series,
                    x_label="Changes per second"))
        self._save("churn", "churn.svg", f"Changes at a fixed rate, {_cluster(shape)}. The time of "
                   "kube-proxy's modes is mostly their minSyncPeriod of 1 s", panels)

    def _latency(self):
        shape = self._fullest_shape("latency")
        if shape is None:
            return
        metric = HEADLINES["latency"][0]
        floor = FLOORS["latency"]
        panels = []
        for protocol in ("tcp", "udp"):
            names = {position: (shape, f"{protocol}-{position}")
                     for position in ("first", "middle", "last")}
            series = self._by_group("latency", names, metric)
            least = series.pop(floor, {})
            less = {opponent: {group: figure.less(least[group])
                               for group, figure in figures.items() if group in least}
                    for opponent, figures in series.items()}
            less = {opponent: figures for opponent, figures in less.items() if figures}
            if less:
                panels.append(lambda axes, names=names, less=less, protocol=protocol: _bars(
                    axes, f"Time that a proxy adds to the first {protocol.upper()} round trip "
                    f"(median), {_cluster(shape)}", metric, list(names), less, logarithmic=False,
                    x_label="Position of the Service in the list"))
        self._save("latency", "first-packet.svg", "Time that a proxy adds to the first round trip "
                   f"of a flow, {_cluster(shape)}", panels)
        sizes = self._by_size("latency", "tcp-last", metric)
        if any(len(points) > 1 for points in sizes.values()):
            title = "First TCP round trip to the last Service in the list (median), by number of " \
                "Services with 10 endpoints each"
            self._save("latency", "first-packet-size.svg", title, [
                lambda axes: _lines(axes, title, metric, sizes, logarithmic=False)])

    def _connections(self):
        shape = self._fullest_shape("connections")
        if shape is None:
            return
        names = {what: (shape, what)
                 for what in self._run.whats(workload="connections", shape=shape)}
        series = self._by_group("connections", names, "per_second")
        if series:
            title = f"New TCP connections per second (more is better), {_cluster(shape)}"
            self._save("connections", "connections.svg", title, [
                lambda axes: _bars(axes, title, "per_second", list(names), series,
                                   logarithmic=False,
                                   x_label="Position of the Service in the list")])

    def _memory(self):
        panels = []
        for title, metric in (("Resident memory of long-running processes after the load",
                               "rss_kib"),
                              ("Peak resident memory during the load, without kube-proxy's own "
                               "process", "peak_rss_kib"),
                              ("Increase in kernel memory by the load", "kernel_memory_kib")):
            series = self._by_size("sync", "load", metric)
            if series:
                panels.append(lambda axes, title=title, metric=metric, series=series: _lines(
                    axes, title, metric, series,
                    x_label="Number of Services with 10 endpoints each"))
        self._save("sync", "memory.svg", "Memory after and during the load, by number of Services",
                   panels)
