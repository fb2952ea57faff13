"""Generated runs for tests."""

import json
import os

import figures


def write(folder: str, rows, machine=None):
    """`rows` contains tuples in the order of the columns."""
    with open(os.path.join(folder, "samples.csv"), "w", encoding="utf-8") as file:
        file.write(",".join(figures.COLUMNS) + "\n")
        for row in rows:
            file.write(",".join(map(str, row)) + "\n")
    if machine is not None:
        with open(os.path.join(folder, "machine.json"), "w", encoding="utf-8") as file:
            json.dump(machine, file)


def everything():
    """Returns rows of every workload. The other opponents take `slow` times as long as svcmap."""
    rows = []
    slow = {"netlink": 0.5, "svcmap": 1, "iptables-legacy": 10, "nftables": 30}
    for number in range(3):
        noise = 1 + number / 10

        def add(workload, shape, opponent, what, metric, value):
            rows.append((workload, shape, opponent, what, metric, number, value))

        for opponent, factor in slow.items():
            for services in (1000, 5000, 10000):
                shape = f"{services}x10"
                unit = factor * noise
                add("sync", shape, opponent, "load", "seconds", services * 4e-5 * unit)
                add("sync", shape, opponent, "load", "rss_kib", 20000 + services * factor)
                add("sync", shape, opponent, "load", "kernel_memory_kib", services * 4)
                for change in range(40):
                    for what in ("replace", "new-service"):
                        add("change", shape, opponent, what, "seconds",
                            (2e-4 + change * 1e-6) * unit)
            for rate in (10, 100, 1000):
                add("churn", "10000x10", opponent, f"rate-{rate}", "cpu_share",
                    rate / 5000 * factor)
                for change in range(rate):
                    add("churn", "10000x10", opponent, f"rate-{rate}", "latency_seconds",
                        (2e-4 + change * 1e-6) * unit)
                add("churn", "10000x10", opponent, f"rate-{rate}", "latency_p50_seconds",
                    2e-4 * unit)
                add("churn", "10000x10", opponent, f"rate-{rate}", "latency_p99_seconds",
                    6e-4 * unit)
                add("churn", "10000x10", opponent, f"rate-{rate}", "offered_per_second", rate)
                add("churn", "10000x10", opponent, f"rate-{rate}", "achieved_per_second", rate)
                add("churn", "10000x10", opponent, f"rate-{rate}", "updates", 1)
        add("sync", "44000x1", "svcmap", "load", "seconds", 0.8)
        for shape in ("1000x10", "10000x10"):
            for opponent, extra in (("direct", 0), ("svcmap", 4), ("nftables", 6)):
                for protocol in ("tcp", "udp"):
                    for place in ("first", "middle", "last"):
                        add("latency", shape, opponent, f"{protocol}-{place}", "p50_us",
                            25 + extra + number)
                        add("latency", shape, opponent, f"{protocol}-{place}", "p99_us",
                            55 + extra)
                        add("latency", shape, opponent, f"{protocol}-{place}", "count", 5000)
                        add("latency", shape, opponent, f"{protocol}-{place}", "failures", 0)
                add("connections", shape, opponent, "last", "per_second", 20000 - 100 * extra)
        for signal in ("sigterm", "sigkill"):
            for metric, value in (("healthy_seconds", 0.2), ("serving_seconds", 0.25),
                                  ("elements_written", 0), ("commits", 0)):
                add("restart", "10000x10", "svcmap", signal, metric, value)
        add("restart", "10000x10", "nftables", "full-sync", "seconds", 6)
        for state in ("running", "stopped"):
            add("repair", "10000x10", "svcmap", f"FlushedRuleset-{state}", "outage_seconds", 0.02)
            add("repair", "10000x10", "svcmap", f"FlushedRuleset-{state}", "seconds", 0.2)
    rows.append(("sync", "10000x10", "iptables-nft", "load", "over-limit", 0, 120))
    rows.append(("sync", "5000x10", "iptables-nft", "load", "failed", 0, 0))
    rows.append(("sync", "44000x1", "iptables-nft", "load", "not-tried", 0, 120))
    return rows
