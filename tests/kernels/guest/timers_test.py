"""Many session affinity timeouts. Each timeout adds chains, and old kernels follow all paths between
chains when they validate a change of the rules."""

import time
import unittest

from world import NODE_OBJECT, World, ask, note, service

MAXIMUM = 32  # kMaxTimers of proxy/ruleset/descriptor.h.


def sticky(number, seconds):
    return service(f"web{number}", number, ("TCP",), spec="sessionAffinity: ClientIP\n  "
                   f"sessionAffinityConfig: {{clientIP: {{timeoutSeconds: {seconds}}}}}")


class TimersTest(unittest.TestCase):
    def test_the_kernel_accepts_the_maximum_number_of_timeouts(self):
        with World() as world:
            world.serve(("TCP",))
            world.apply(NODE_OBJECT)
            for count in (1, 8, MAXIMUM):
                start = time.monotonic()
                world.apply("".join(sticky(10 + i, 100 + i) for i in range(count)))
                note(f"{count} affinity timeouts: svcmapctl apply took {time.monotonic() - start:.2f} s")
                self.assertIn(ask("pod", "TCP", f"10.96.0.{9 + count}", 80)[0], ("b1", "b2"))
            world.ctl("wait", "--for", "serving")


if __name__ == "__main__":
    unittest.main(verbosity=2)
