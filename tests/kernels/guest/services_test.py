"""Real connections to each kind of Service address, for TCP, UDP and SCTP, in both IP families, and
session affinity."""

import unittest

from world import HOSTS, NODE, NODE_OBJECT, PROTOCOLS, World, ask, note, servers, service

PORTS = {"TCP": 30100, "UDP": 30101, "SCTP": 30102}


class ServicesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = World().__enter__()
        cls.addClassCleanup(cls.world.__exit__)
        cls.world.serve()
        cls.world.apply(NODE_OBJECT + service("web", 10) +
                        service("sticky", 11, spec="sessionAffinity: ClientIP") +
                        service("local", 12, spec="externalTrafficPolicy: Local") +
                        service("empty", 13, backends=()))

    def test_every_kind_of_address_reaches_a_backend(self):
        for protocol in PROTOCOLS:
            targets = [("clusterIP", "pod", "10.96.0.10", 80), ("clusterIP", "pod", "fd00:96::10", 80),
                       ("externalIP", "ext", "198.51.100.10", 80),
                       ("externalIP", "ext", "2001:db8:51::10", 80),
                       ("load balancer IP", "ext", "203.0.113.10", 80),
                       ("load balancer IP", "ext", "2001:db8:71::10", 80),
                       ("nodePort", "ext", NODE[0], PORTS[protocol]),
                       ("nodePort", "ext", NODE[1], PORTS[protocol])]
            for kind, client, address, port in targets:
                with self.subTest(protocol=protocol, kind=kind, address=address):
                    answer = ask(client, protocol, address, port)
                    self.assertIn(answer[0], ("b1", "b2"), answer)
                    masqueraded = answer[1] not in HOSTS[client]
                    self.assertEqual(masqueraded, client == "ext", answer)

    def test_a_local_service_keeps_the_source_address(self):
        for protocol in PROTOCOLS:
            for family, address in enumerate(("203.0.113.12", "2001:db8:71::12")):
                with self.subTest(protocol=protocol, address=address):
                    self.assertEqual(ask("ext", protocol, address, 80)[1], HOSTS["ext"][family])

    def test_new_connections_use_all_backends(self):
        for protocol in PROTOCOLS:
            for address in ("10.96.0.10", "fd00:96::10"):
                with self.subTest(protocol=protocol, address=address):
                    expected = {"b1", "b2"}
                    self.assertEqual(servers("pod", protocol, address, 80, expected), expected)

    def test_session_affinity_selects_one_backend(self):
        for protocol in PROTOCOLS:
            for address in ("10.96.0.11", "fd00:96::11"):
                with self.subTest(protocol=protocol, address=address):
                    names = {ask("pod", protocol, address, 80)[0] for _ in range(12)}
                    self.assertEqual(len(names), 1, names)
                    self.assertLess(names, {"b1", "b2"})

    def test_a_service_without_endpoints_rejects_connections(self):
        for protocol in PROTOCOLS:
            for address in ("10.96.0.13", "fd00:96::13"):
                with self.subTest(protocol=protocol, address=address):
                    # SCTP sockets ignore the ICMP error and send the INIT again.
                    expected = "timeout" if protocol == "SCTP" else "Connection refused"
                    self.assertEqual(ask("pod", protocol, address, 80), expected)

    def test_many_tcp_connections_in_a_row_are_rejected_at_once(self):
        # The kernel limits ICMP errors, but not TCP resets. The second SYN follows after 1 s.
        for client, address in (("pod", "10.96.0.13"), ("pod", "fd00:96::13"),
                                ("ext", "198.51.100.13"), ("ext", "2001:db8:51::13")):
            with self.subTest(client=client, address=address):
                answers = [ask(client, "TCP", address, 80, timeout=0.9) for _ in range(20)]
                self.assertEqual(set(answers), {"Connection refused"}, answers)

    @classmethod
    def tearDownClass(cls):
        note("sockets of TCP, UDP and SCTP, 5 kinds of addresses, IPv4 and IPv6")


if __name__ == "__main__":
    unittest.main(verbosity=2)
