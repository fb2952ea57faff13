"""Plots the figures of a run as small SVG files with a white background. The same figures give the
same bytes. Colour-blind readers can distinguish the colours (Okabe and Ito) and markers."""

import math
import os

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as pyplot  # noqa: E402  After the choice of a backend.
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: E402

import units  # noqa: E402
from figures import FLOORS, HEADLINES, Run, parse_shape  # noqa: E402

STYLES = {  # Colour and marker.
    "direct": ("#7f7f7f", "x"),
    "netlink": ("#000000", "+"),
    "svcmap": ("#0072B2", "o"),
    "nftables": ("#D55E00", "s"),
    "nftables-single": ("#56B4E9", "P"),
    "nftables-library": ("#999999", "X"),
    "iptables-legacy": ("#009E73", "^"),
    "iptables-nft": ("#E69F00", "v"),
    "kube-proxy": ("#CC79A7", "D"),
}
OTHER_STYLE = ("#F0E442", "*")

matplotlib.rcParams.update({
    "svg.fonttype": "none",
    "svg.hashsalt": "svcmap",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "savefig.facecolor": "white",
})


def _style(opponent):
    return STYLES.get(opponent, OTHER_STYLE)


def _y_axis(axes, metric, figures, logarithmic):
    """Labels the ticks with their unit, with enough ticks to read values on a logarithmic scale."""
    if logarithmic and figures:
        # Ticks of memory sizes are powers of two.
        base = 2 if metric.endswith("_kib") else 10
        low = min(figure.median for figure in figures)
        high = max(max(figure.high, figure.median * (2.4 if figure.over_limit else 1))
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


def _whiskers(figures):
    return [[figure.median - figure.low for figure in figures],
            [figure.high - figure.median for figure in figures]]


def _arrow_up(axes, x, y, colour):
    axes.annotate("", xy=(x, y * 1.9), xytext=(x, y),
                  arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 1.4})


def _lines(axes, title, metric, series, logarithmic=True):
    """`series` maps an opponent to [(x, figure)]. The x axis is logarithmic."""
    for opponent, points in series.items():
        colour, mark = _style(opponent)
        xs = [x for x, _ in points]
        figures = [figure for _, figure in points]
        axes.errorbar(xs, [figure.median for figure in figures], yerr=_whiskers(figures),
                      color=colour, marker=mark, markersize=5, linewidth=1.4, capsize=3,
                      label=opponent)
        for x, figure in points:
            if figure.over_limit:
                _arrow_up(axes, x, figure.median, colour)
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xscale("log")
    xs = sorted({x for points in series.values() for x, _ in points})
    axes.set_xticks(xs, [f"{x:,}" for x in xs], rotation=30, ha="right")
    axes.minorticks_off()
    _y_axis(axes, metric, [figure for points in series.values() for _, figure in points],
            logarithmic)


def _bars(axes, title, metric, groups, series, logarithmic=True):
    """`series` maps an opponent to {group: figure}."""
    width = min(0.84 / len(series), 0.25)
    left = -width * len(series) / 2
    for index, (opponent, figures) in enumerate(series.items()):
        colour, _ = _style(opponent)
        there = [group for group in groups if group in figures]
        xs = [groups.index(group) + left + (index + 0.5) * width for group in there]
        axes.bar(xs, [figures[group].median for group in there], width * 0.92, color=colour,
                 label=opponent, yerr=_whiskers([figures[group] for group in there]),
                 error_kw={"elinewidth": 0.9, "capsize": 2, "ecolor": "#444444"})
        for x, group in zip(xs, there):
            if figures[group].over_limit:
                _arrow_up(axes, x, figures[group].median, colour)
    axes.set_title(title, fontsize=10, loc="left")
    long_names = max(map(len, groups), default=0) > 9
    axes.set_xticks(range(len(groups)), groups, rotation=30 if long_names else 0,
                    ha="right" if long_names else "center")
    axes.set_xlim(-0.6, len(groups) - 0.4)
    axes.grid(False, axis="x")
    _y_axis(axes, metric, [figure for figures in series.values() for figure in figures.values()],
            logarithmic)


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
        width = max(8, 1.2 + 4.4 * len(panels))
        figure, all_axes = pyplot.subplots(1, len(panels), figsize=(width, 3.9), squeeze=False)
        shown = {}
        for axes, draw in zip(all_axes[0], panels):
            draw(axes)
            for handle, label in zip(*axes.get_legend_handles_labels()):
                shown.setdefault(label, handle)
        figure.legend(shown.values(), shown.keys(), loc="lower center", ncol=4)
        figure.tight_layout(rect=(0, 0.09 if len(shown) <= 4 else 0.14, 1, 1))
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
                axes, "Sync time by Services of 10 endpoints", "seconds", series))
        rest = {text: (text, "load") for text in self._run.shapes(workload="sync", what="load")
                if not (shape := parse_shape(text)) or shape.endpoints != 10 or shape.mix}
        other = self._by_group("sync", rest, "seconds")
        if other:
            panels.append(lambda axes: _bars(
                axes, "Sync time of other clusters", "seconds", list(rest), other))
        self._save("sync", "sync.svg", "Sync time by size of the cluster", panels)

    def _change(self):
        shape = self._fullest_shape("change")
        if shape is None:
            return
        names = {what: (shape, what) for what in self._run.whats(workload="change", shape=shape)}
        kinds = self._by_group("change", names, "seconds")
        groups = [name for name in names if any(name in figures for figures in kinds.values())]
        if kinds:
            self._save("change", "change-kinds.svg", f"Time of a change by its kind, {shape}", [
                lambda axes: _bars(axes, f"Time of a change by its kind, {shape}", "seconds",
                                   groups, kinds)])
        sizes = self._by_size("change", "replace", "seconds")
        if sizes:
            self._save("change", "change-size.svg",
                       "One endpoint replaced, by size of the cluster", [
                           lambda axes: _lines(
                               axes, "One endpoint replaced, by Services of 10 endpoints",
                               "seconds", sizes)])

    def _churn(self):
        shape = self._fullest_shape("churn")
        if shape is None:
            return
        panels = []
        for title, metric in (("Share of one core", "cpu_share"),
                              ("Time of a change, p50", "latency_p50_seconds"),
                              ("Time of a change, p99", "latency_p99_seconds")):
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
                    axes, f"{title}, by changes a second", metric, series))
        self._save("churn", "churn.svg", f"Changes at a fixed rate, {shape}; the latency of "
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
                    axes, f"{protocol.upper()}: p50 over direct, {shape}", metric, list(names),
                    less, logarithmic=False))
        self._save("latency", "first-packet.svg",
                   f"First packet: what a proxy adds, by position of the Service, {shape}", panels)
        sizes = self._by_size("latency", "tcp-last", metric)
        if any(len(points) > 1 for points in sizes.values()):
            self._save("latency", "first-packet-size.svg",
                       "First packet to the last Service, by size of the cluster", [
                           lambda axes: _lines(
                               axes, "TCP, last Service: p50 by Services of 10 endpoints", metric,
                               sizes, logarithmic=False)])

    def _connections(self):
        shape = self._fullest_shape("connections")
        if shape is None:
            return
        names = {what: (shape, what)
                 for what in self._run.whats(workload="connections", shape=shape)}
        series = self._by_group("connections", names, "per_second")
        if series:
            self._save("connections", "connections.svg",
                       f"New connections per second, by position of the Service, {shape}", [
                           lambda axes: _bars(axes, f"New connections per second, {shape}",
                                              "per_second", list(names), series,
                                              logarithmic=False)])

    def _memory(self):
        panels = []
        for title, metric in (("RSS of the process that stays", "rss_kib"),
                              ("Peak RSS while it loads*", "peak_rss_kib"),
                              ("Memory of the kernel", "kernel_memory_kib")):
            series = self._by_size("sync", "load", metric)
            if series:
                panels.append(lambda axes, title=title, metric=metric, series=series: _lines(
                    axes, f"{title}, by Services of 10", metric, series))
        self._save("sync", "memory.svg", "Memory by size of the cluster; * of nft or "
                   "iptables-restore: kube-proxy's own process is absent", panels)
