"""A foreign flowtable on the path, as network plugins create it. Flows of an endpoint that leaves stop,
because svcmapd deletes their connection tracking entries."""

import pathlib
import socket
import threading
import time
import unittest

from world import NODE_OBJECT, World, family_of, in_netns, note, run, service, slices, wait_until

FLOWTABLE = """table inet foreign {
  flowtable f { hook ingress priority 0; devices = { to-b1, to-b2, to-pod, to-ext }; }
  chain forward {
    type filter hook forward priority 0;
    meta l4proto { tcp, udp } flow add @f
  }
}
"""
TARGET = "{name: udp, protocol: UDP, port: 8080}"


class Sender:
    """Sends datagrams from one source port, one every 5 ms."""

    def __init__(self, netns, address, port):
        def body():
            sock = socket.socket(family_of(address), socket.SOCK_DGRAM)
            sock.connect((address, port))
            sock.setblocking(False)
            return sock
        self._socket = in_netns(netns, body)
        self.answers = []  # (time, name)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def _loop(self):
        while not self._stopped.wait(0.005):
            try:
                self._socket.send(b"who")
                self.answers.append((time.monotonic(), self._socket.recv(100).decode().split()[0]))
            except OSError:
                pass

    def close(self):
        self._stopped.set()
        self._thread.join()
        self._socket.close()


def tracked(netns):
    return in_netns(netns, lambda: pathlib.Path("/proc/thread-self/net/nf_conntrack").read_text())


class FlowtableTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = World().__enter__()
        cls.addClassCleanup(cls.world.__exit__)
        cls.udp = cls.world.serve(("UDP", "TCP"))

    def leave(self, address, client, offloaded):
        """Returns the time in milliseconds after which the endpoint that left received nothing."""
        self.world.apply(NODE_OBJECT + service("web", 10, ("UDP",)))
        sender = Sender(client, address, 80)
        try:
            self.assertTrue(wait_until(lambda: len(sender.answers) > 40))
            old = sender.answers[-1][1]
            other = "b2" if old == "b1" else "b1"
            if offloaded:
                self.assertTrue(wait_until(lambda: "[OFFLOAD]" in tracked("node")), tracked("node"))
            else:
                self.assertNotIn("[OFFLOAD]", tracked("node"))
            self.world.apply(slices("web", TARGET, (other,)))
            acknowledged = time.monotonic()
            moved = wait_until(lambda: sender.answers[-1][1] == other)
            # The endpoint that left receives none of the next datagrams of the flow.
            count = len(sender.answers)
            self.assertTrue(wait_until(lambda: len(sender.answers) > count + 40))
            last = max(t for s in self.udp[old] for t in s.received[-3:])
            after = max(0, round((last - acknowledged) * 1000))
            self.assertTrue(moved, f"{old} received datagrams for {after} ms after the ack")
            return after
        finally:
            sender.close()

    def test_flows_of_a_removed_endpoint_end(self):
        for offloaded in (False, True):
            if offloaded:
                ended = run("nft", "-f", "-", netns="node", input=FLOWTABLE, check=False)
                self.assertEqual(ended.returncode, 0, ended.stderr)
            for address, client in (("10.96.0.10", "pod"), ("fd00:96::10", "pod"),
                                    ("203.0.113.10", "ext")):
                with self.subTest(offloaded=offloaded, address=address):
                    after = self.leave(address, client, offloaded)
                    self.assertLessEqual(after, 50)
                    note(f"{'offloaded' if offloaded else 'normal'} UDP flow to {address}: last "
                         f"datagram {after} ms after the ack")


if __name__ == "__main__":
    unittest.main(verbosity=2)
