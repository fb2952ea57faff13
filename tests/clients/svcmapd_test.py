"""The examples of each client, as they are, with the real svcmapd. Both sides are killed and restarted in
any order. SVCMAP_CLIENTS_ROUNDS is the number of random restarts (12), and SVCMAP_SEED their seed."""
import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

import harness
from harness import Driver, Svcmapd, endpoint_slice, kubernetes_list, service, until

class Examples:
    """The tests of all clients and their examples."""
    COMMAND = []  # The example.
    DRIVER = []

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "objects.json"
        self.agent = Svcmapd(self.folder)
        self.addCleanup(self.agent.close)
        self.controller = None
        self.addCleanup(self.kill_controller)

    def start_controller(self):
        log = open(self.folder / "controller.log", "ab")
        self.controller = subprocess.Popen([*self.COMMAND, str(self.file), self.agent.target], stdout=log,
                                           stderr=log, env=harness.python_environment())
        log.close()

    def kill_controller(self):
        if self.controller is not None:
            self.controller.kill()
            self.controller.wait()
            self.controller = None

    def write(self, addresses):
        """Replaces the list. `addresses` contains an endpoint address for each Service."""
        self.wanted = dict(addresses)
        objects = [{"kind": "Node", "metadata": {"name": "n1"},
                    "status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}}]
        for name, address in self.wanted.items():
            number = int(name.rpartition("-")[2])
            objects += [service(name, f"10.96.0.{number + 1}"), endpoint_slice(name, address)]
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(kubernetes_list(objects)))
        new.rename(self.file)

    def stored(self):
        """Endpoint addresses by Service that the agent stores, or None if the objects do not match."""
        found = self.agent.objects()
        services = {name for kind, name in found if kind == "service"}
        slices = {name: value.endpoints[0].addresses[0] for (kind, name), value in found.items()
                  if kind == "endpoint_slice"}
        if slices.keys() != {f"{name}-1" for name in services}:
            return None
        return {name: slices[f"{name}-1"] for name in services}

    def synced(self):
        until(lambda: self.stored() == self.wanted, self.logs)

    def saved(self):
        """The controller's state file."""
        path = self.folder / "objects.json.sent"
        return path.read_bytes() if path.exists() else b""

    def change_and_sync(self, addresses):
        """Changes the list, and waits until the controller has stored the Ack."""
        before = self.saved()
        self.write(addresses)
        self.synced()
        until(lambda: self.saved() != before, self.logs)

    def logs(self):
        controller = (self.folder / "controller.log").read_text()
        return f"wanted {self.wanted}, stored {self.stored()}\n{controller}\n{self.agent.log()[-4000:]}"

    def restart(self, what):
        """Kills and starts both sides in this order: "-" kills, "+" starts, "c" the controller, "a" the
        agent."""
        actions = {"-c": self.kill_controller, "+c": self.start_controller, "-a": self.agent.kill,
                   "+a": self.agent.start}
        for action in what.split():
            actions[action]()

    def test_connects_with_mutual_tls(self):
        subprocess.run([harness.go_program("tests/clients/certificates"), self.folder], check=True)
        self.wanted = {}
        self.agent.start("--listen", "tcp://127.0.0.1:7070", "--tls-cert", self.folder / "server.pem",
                         "--tls-key", self.folder / "server.key", "--tls-client-ca", self.folder / "ca.pem")
        client = Driver(self.agent.inside(*self.DRIVER), "tcp://127.0.0.1:7070", certificates=self.folder)
        self.addCleanup(client.kill)
        client.set(service("web-1", "10.96.0.1"), endpoint_slice("web-1", "10.1.0.1"))
        client.synced()
        self.assertEqual(self.stored(), {"web-1": "10.1.0.1"})
        self.assertIsNone(client.close())

    def test_nothing_is_sent_twice_after_restarts_in_any_order(self):
        addresses = {f"web-{i}": "10.1.0.1" for i in range(50)}
        self.agent.start()
        self.write(addresses)
        self.start_controller()
        self.synced()
        until(self.saved, self.logs)
        self.assertEqual(self.agent.received(), (3, 100))  # Begin, batch and end of the snapshot.
        for round, order in enumerate(("-c +c", "-a +a", "-c -a +a +c", "-a -c +c +a", "-c -a +c +a")):
            with self.subTest(order):
                batches, changes = self.agent.received()
                if "-a" in order:
                    batches = changes = 0
                self.restart(order)
                # The next change is the only one that the agent receives.
                addresses["web-7"] = f"10.1.1.{round}"
                self.change_and_sync(addresses)
                self.assertEqual(self.agent.received(), (batches + 1, changes + 1), self.logs())
                self.assertEqual(self.agent.status().objects[0].count, 50)

    def test_nothing_is_lost_in_random_restarts(self):
        seed = int(os.environ.get("SVCMAP_SEED", "1"))
        chance = random.Random(seed)
        addresses = {f"web-{i}": "10.1.0.1" for i in range(20)}
        self.agent.start()
        self.write(addresses)
        self.start_controller()
        for round in range(int(os.environ.get("SVCMAP_CLIENTS_ROUNDS", "12"))):
            for _ in range(chance.randrange(1, 6)):
                name = f"web-{chance.randrange(40)}"
                if chance.random() < 0.3:
                    addresses.pop(name, None)
                else:
                    addresses[name] = f"10.1.{chance.randrange(200)}.{chance.randrange(1, 200)}"
            self.write(addresses)
            if chance.random() < 0.3:
                self.synced()
            self.restart(chance.choice(("-c +c", "-a +a", "-c -a +a +c", "-c -a +c +a", "-a -c +c +a")))
            if chance.random() < 0.5:
                with self.subTest(round=round, seed=seed):
                    self.synced()
        self.synced()
        self.assertEqual(list(self.agent.status().findings), [])


class BlockingTest(Examples, unittest.TestCase):
    COMMAND = [harness.PYTHON, str(harness.TOP / "api/clients/python/examples/sync.py")]
    DRIVER = harness.python_driver("blocking")


class AsyncioTest(Examples, unittest.TestCase):
    COMMAND = [harness.PYTHON, str(harness.TOP / "api/clients/python/examples/sync_asyncio.py")]
    DRIVER = harness.python_driver("asyncio")


class GoTest(Examples, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.COMMAND = [harness.go_program("api/clients/go/examples/sync")]
        cls.DRIVER = harness.go_driver()


if __name__ == "__main__":
    unittest.main()
