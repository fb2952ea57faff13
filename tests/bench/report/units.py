"""Formats figures with three digits and the unit in the name of the metric."""


def digits(value: float, count: int = 3) -> str:
    """Formats a number, for example "0.0123", "1.23", "123" or "12,345", without trailing zeros."""
    rounded = float(f"{value:.{count}g}")
    if abs(rounded) >= 10 ** (count - 1):
        return f"{value:,.0f}"
    return f"{rounded:.9f}".rstrip("0").rstrip(".")


def seconds(value: float) -> str:
    for unit, factor in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if abs(value) * factor >= (0.9995 if unit != "us" else 0):
            return f"{digits(value * factor)} {unit}"
    raise AssertionError("unreachable")


def kib(value: float) -> str:
    return f"{digits(value / 1024)} MiB" if value >= 1024 else f"{digits(value)} KiB"


def text(metric: str, value: float) -> str:
    if metric == "seconds" or metric.endswith("_seconds"):
        return seconds(value)
    if metric.endswith("_us"):
        return seconds(value / 1e6)
    if metric.endswith("_kib"):
        return kib(value)
    if metric.endswith("share"):
        return f"{digits(value * 100)} %"
    if metric.startswith("per_second") or metric.endswith("_per_second"):
        return f"{digits(value, 4)}/s"
    if "bytes" in metric:
        return f"{digits(value, 4)} B"
    return f"{digits(value, 6)}"


def ratio(value: float) -> str:
    """Formats a ratio, for example "14x", "1.26x" or "0.712x"."""
    return f"{digits(value, 2 if abs(value) >= 10 else 3)}x"


def name(metric: str) -> str:
    """Returns a heading without the unit, because each value has its unit."""
    special = {"per_second": "rate", "seconds": "time",
               "peak_rss_kib": "peak RSS (nft, iptables-restore: without kube-proxy itself)"}
    if metric in special:
        return special[metric]
    for unit in ("_seconds", "_us", "_kib"):
        metric = metric.removesuffix(unit)
    return metric.replace("_", " ")
