"""Timers of the clients, which the tests shorten. The asyncio client uses the timers of the blocking
client."""
import pathlib
import tempfile
import unittest
from unittest import mock

import harness

import svcmap
from fake_agent import FakeAgent
from svcmap import _agent


class BlockingTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.agent = FakeAgent(pathlib.Path(folder.name, "agent.sock"))
        self.addCleanup(self.agent.stop)
        self.errors, self.results = [], []

    def client(self):
        client = svcmap.Agent(self.agent.target, name="test", on_error=lambda e: self.errors.append(str(e)),
                              on_result=lambda r: self.results.append(r.message))
        self.addCleanup(client.close)
        return client

    @mock.patch.object(_agent, "_OPENED_TIMEOUT", 0.2)
    def test_reconnects_without_a_response_to_open(self):
        self.agent.silent_opens = 1
        client = self.client()
        client.set([])
        client.wait(harness.PATIENCE)
        self.assertEqual(self.errors, ["timeout: no response to Open"])

    @mock.patch.object(_agent, "_ACK_TIMEOUT", 0.2)
    def test_reconnects_without_an_ack(self):
        client = self.client()
        client.set([])
        client.wait(harness.PATIENCE)
        self.agent.hold_acks = True
        client.apply(svcmap.Service(metadata={"namespace": "shop", "name": "web"}))
        self.agent.until(lambda: len(self.agent.opens) == 2)
        self.agent.release_acks()
        client.wait(harness.PATIENCE)
        self.assertEqual(set(self.errors), {"timeout: no Ack"})
        self.assertEqual(self.agent.names(), ["web"])

    @mock.patch.object(_agent, "_RETRY_REJECTED", 0.2)
    def test_sends_rejected_objects_again(self):
        self.agent.refused_names = {"web"}
        client = self.client()
        client.set([svcmap.Service(metadata={"namespace": "shop", "name": n}) for n in ("web", "dns")])
        client.wait(harness.PATIENCE)
        self.agent.until(lambda: self.agent.messages[3:5] == [["+web"], ["+web"]])
        self.agent.refused_names = set()
        self.agent.until(lambda: self.agent.names() == ["dns", "web"])
        client.wait(harness.PATIENCE)
        self.assertEqual(client.status.rejected, 0)


class GoTest(unittest.TestCase):
    def test_timers(self):
        harness.go("test", harness.MODULE)


if __name__ == "__main__":
    unittest.main()
