"""Many load balancer source ranges. Kernels need very different times to add ranges to a set with several
fields, and the processor handles no packets during this time."""

import time
import unittest

from world import NODE_OBJECT, World, ask, note, service

MAXIMUM = 4096  # kMaxSourceRows of proxy/ruleset/table.h.


def ranges(count):
    return ", ".join(f"100.{64 + i // 256}.{i % 256}.0/24" for i in range(count - 1))


class RangesTest(unittest.TestCase):
    def test_the_kernel_accepts_the_maximum_number_of_ranges(self):
        with World() as world:
            world.serve(("TCP",))
            world.apply(NODE_OBJECT + service("web", 10, ("TCP",)))
            for count in (1, 1024, MAXIMUM):
                # The client's range and the others.
                text = f"loadBalancerSourceRanges: [192.168.77.0/24{', ' * (count > 1)}{ranges(count)}]"
                start = time.monotonic()
                world.apply(service("web", 10, ("TCP",), spec=text))
                note(f"{count} source ranges: svcmapctl apply took {time.monotonic() - start:.2f} s")
                self.assertIn(ask("ext", "TCP", "203.0.113.10", 80)[0], ("b1", "b2"))
            world.apply(service("web", 10, ("TCP",),
                                spec=f"loadBalancerSourceRanges: [{ranges(MAXIMUM)}]"))
            self.assertEqual(ask("ext", "TCP", "203.0.113.10", 80, timeout=1), "timeout")


if __name__ == "__main__":
    unittest.main(verbosity=2)
