"""The stores of the clients with etcd, svcmap-etcd and svcmapd. SVCMAP_CLIENTS_ROUNDS is the number of random
failures (12), and SVCMAP_SEED their seed."""
import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import unittest

import harness
from harness import (BIN, PYTHON, TOP, Driver, Etcd, EtcdProxy, Svcmapd, endpoint_slice, etcd, kubernetes_list,
                     python_environment, service, until)

import svcmap

PREFIX = "/svcmap/v1/test"
NODE = {"kind": "Node", "metadata": {"name": "n1"},
        "status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}}


def web(number, address="10.1.0.1"):
    name = f"web-{number}"
    return [service(name, f"10.96.{number // 250}.{number % 250 + 1}"), endpoint_slice(name, address)]


def webs(count, address="10.1.0.1"):
    return [obj for number in range(count) for obj in web(number, address)]


class Stores:
    """The tests of all stores."""
    COMMAND = []
    EXAMPLE = []

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.agent = Svcmapd(self.folder)
        self.addCleanup(self.agent.close)
        self.etcd = Etcd(self.folder, self.agent)
        self.addCleanup(self.etcd.kill)
        self.etcd.start()
        self.proxy = EtcdProxy(self.etcd, self.folder)
        self.addCleanup(self.proxy.stop)

    def store(self, target=None, command=None, inside=(), lease=60, **settings):
        """A store that connects through the proxy. With a short lease, a slow machine can cause another election."""
        store = Driver([*inside, *(command or self.COMMAND)], target or self.proxy.url, Prefix=PREFIX, Lease=lease,
                       **settings)
        self.addCleanup(store.kill)
        return store

    def stored(self):
        """Keys below the prefix, without the head and the leader."""
        return {key: pair for key, pair in self.etcd.pairs(f"{PREFIX}/").items() if key not in ("state/head", "leader")}

    def names(self):
        return [key.rpartition("/")[2] for key in self.stored()]

    def addresses(self):
        """Addresses of endpoints in etcd."""
        return {svcmap.EndpointSlice.FromString(pair.value).endpoints[0].addresses[0]
                for key, pair in self.stored().items() if "endpointslices" in key}

    def head(self):
        return json.loads(self.etcd.pairs(f"{PREFIX}/state/head")[""].value)

    def error(self, store, text):
        """Waits for an error that contains the text."""
        until(lambda: any(text in error["details"] for error in store.errors), lambda: f"{text}: {store.errors}")

    # ---- Differences ----

    def test_writes_the_list_and_then_only_differences(self):
        store = self.store()
        store.set(*web(1), NODE)
        store.synced()
        self.assertEqual(list(self.stored()), [
            "nodes/n1", "state/endpointslices/shop/web-1-1", "state/services/shop/web-1"])
        store.set(*web(1), *web(2))
        store.set(*web(1), *web(2))
        store.synced()
        self.assertEqual(self.names(), ["web-1-1", "web-2-1", "web-1", "web-2"])
        store.update(web(3), web(1))
        store.synced()
        self.assertEqual(self.names(), ["web-2-1", "web-3-1", "web-2", "web-3"])
        status = store.status()
        self.assertEqual((status["leader"], status["objects"], status["written"], store.errors), (True, 4, 10, []))
        head = self.head()
        self.assertEqual((head["format"], head["seq"], head["epoch"]), (1, status["seq"], 1))
        # The last transaction contains both changes.
        self.assertEqual(len(self.proxy.transactions[-1].success), 5)

    def test_each_transaction_writes_the_next_head_and_compares_the_previous_head(self):
        store = self.store()
        store.set(*web(1))
        store.synced()
        store.set(*web(2))
        store.synced()
        heads = [json.loads(txn.success[0].request_put.value) for txn in self.proxy.transactions]
        self.assertEqual([head["seq"] for head in heads], list(range(1, len(heads) + 1)))
        self.assertEqual(len({head["nonce"] for head in heads}), len(heads))
        for txn in self.proxy.transactions:
            self.assertEqual(sorted(compare.key.decode()[len(PREFIX):] for compare in txn.compare),
                             ["/leader", "/state/head"])

    def test_a_large_change_keeps_each_service_and_its_endpoints_in_one_transaction(self):
        store = self.store()
        store.set(*webs(300))
        store.synced()
        sizes = [len(txn.success) for txn in self.proxy.transactions if len(txn.success) > 1]
        self.assertEqual((sum(sizes) - len(sizes), max(sizes)), (600, 119))  # 59 Services, their endpoints, the head.
        pairs = self.stored()
        for number in range(300):
            self.assertEqual(pairs[f"state/services/shop/web-{number}"].mod_revision,
                             pairs[f"state/endpointslices/shop/web-{number}-1"].mod_revision)

    def test_endpoints_of_a_very_large_service_are_added_before_others_are_removed(self):
        def slices(first):
            slices = [endpoint_slice("web", "10.1.0.1") for _ in range(100)]
            for number, obj in enumerate(slices, first):
                obj["metadata"]["name"] = f"web-{number}"
            return slices
        store = self.store()
        store.set(service("web", "10.96.0.1"), *slices(0))
        store.synced()
        store.set_and_accept_removals(service("web", "10.96.0.2"), *slices(100))
        store.synced()
        operations = [next(kind for kind in ("slice", "service", "delete") if kind in text) for text in (
            f"{'delete' if op.HasField('request_delete_range') else op.request_put.key.decode()}"
            for txn in self.proxy.transactions[-2:] for op in txn.success[1:])]
        self.assertEqual(operations, ["slice"] * 100 + ["service"] + ["delete"] * 100)

    def test_unused_labels_and_annotations_are_not_written(self):
        obj = service("web", "10.96.0.1")
        obj["metadata"] |= {"labels": {"a": "b", "service.kubernetes.io/service-proxy-name": "x"},
                            "annotations": {"a": "b", "svcmap/end-ports": "all=65535"}}
        store = self.store()
        store.set(obj)
        store.synced()
        metadata = svcmap.Service.FromString(self.stored()["state/services/shop/web"].value).metadata
        self.assertEqual((dict(metadata.labels), dict(metadata.annotations)), (
            {"service.kubernetes.io/service-proxy-name": "x"}, {"svcmap/end-ports": "all=65535"}))

    def test_an_object_is_removed_even_if_its_addition_is_being_written(self):
        store = self.store()
        store.set(*web(1))
        store.synced()
        self.proxy.block(True)
        store.set(*web(1), *web(2))
        self.proxy.until(lambda: self.proxy.waiting)
        store.set(*web(1))
        self.proxy.block(False)
        store.synced()
        self.assertEqual((self.names(), store.status()["written"]), (["web-1-1", "web-1"], 6))

    # ---- Restart and takeover ----

    def test_a_restarted_writer_writes_no_object(self):
        # Another client, so that the bytes do not depend on the language.
        first = self.store(command=harness.python_driver("blocking"))
        first.set(*webs(300), NODE)
        first.synced()
        before = self.stored()
        self.assertIsNone(first.close())
        store = self.store(lease=3)
        store.set(*webs(300), NODE)
        store.synced()
        self.assertEqual((store.status()["written"], self.stored()), (0, before))
        epoch = self.head()["epoch"]
        store.kill()
        store = self.store()
        store.set(*webs(300), NODE)
        store.synced()  # After the end of the lease.
        self.assertEqual((store.status()["written"], self.stored(), self.head()["epoch"]), (0, before, epoch + 1))

    def test_the_next_writer_takes_over_and_writes_the_differences(self):
        first, second = self.store(name="a"), self.store(name="b")
        first.set(*web(1), *web(2))
        first.synced()
        second.set(*web(2), *web(3))
        self.assertIsNotNone(second.wait(timeout=0.05))
        self.assertEqual(json.loads(self.etcd.pairs(f"{PREFIX}/leader")[""].value)["name"], "a")
        self.assertIsNone(first.close())
        second.synced()
        self.assertEqual(self.names(), ["web-2-1", "web-3-1", "web-2", "web-3"])
        self.assertEqual((second.status()["written"], self.head()["epoch"]), (4, 2))

    def test_transactions_of_a_deposed_writer_are_rejected(self):
        first = self.store(name="a", lease=3)
        first.set(*web(1))
        first.synced()
        self.proxy.block(True)
        first.set(*web(1, "10.1.0.66"))
        self.proxy.until(lambda: self.proxy.waiting)
        second = self.store(self.etcd.socket, name="b", lease=3)
        second.set(*web(1, "10.1.0.2"))
        second.synced()  # After the end of the lease.
        self.proxy.block(False)
        self.error(first, "another writer has written")
        self.assertEqual(self.addresses(), {"10.1.0.2"})
        self.assertFalse(first.status()["leader"])
        self.assertIsNotNone(first.wait(timeout=0.05))
        # The deposed writer is elected again, and its list is in effect again.
        second.kill()
        first.synced()
        self.assertEqual(self.addresses(), {"10.1.0.66"})
        self.assertGreaterEqual(self.head()["epoch"], 3)

    def test_a_writer_without_a_lease_writes_nothing(self):
        store = self.store()
        store.set(*web(1))
        store.synced()
        self.etcd.txn(etcd.RequestOp(request_delete_range=etcd.DeleteRangeRequest(key=f"{PREFIX}/leader".encode())))
        store.set(*web(1, "10.1.0.2"))
        self.error(store, f"{PREFIX}/leader: the lease has expired")
        store.synced()
        self.assertEqual((self.addresses(), self.head()["epoch"]), ({"10.1.0.2"}, 2))

    def test_a_writer_that_was_stopped_until_its_lease_expired_is_elected_again(self):
        store = self.store(lease=2)
        store.set(*web(1))
        store.synced()
        store.signal(signal.SIGSTOP)
        until(lambda: not self.etcd.pairs(f"{PREFIX}/leader"), "the lease does not expire")
        store.signal(signal.SIGCONT)
        store.set(*web(2))
        self.error(store, f"{PREFIX}/leader: the lease has expired")
        store.synced()
        self.assertEqual(self.names(), ["web-2-1", "web-2"])

    def test_a_writer_that_reads_many_keys_slowly_renews_the_lease(self):
        first = self.store()
        first.set(*webs(600))  # Three pages.
        first.synced()
        self.assertIsNone(first.close())
        self.proxy.page_pause = 1.5
        store = self.store(lease=4)
        store.set(*webs(600))
        store.synced()
        self.assertEqual(store.status()["written"], 0)

    def test_a_foreign_head_is_found_and_all_keys_are_read_again(self):
        store = self.store()
        store.set(*web(1))
        store.synced()
        self.etcd.put(f"{PREFIX}/state/services/shop/foreign", b"{}")
        self.etcd.put(f"{PREFIX}/state/head", b'{"format":1,"seq":70,"epoch":7,"nonce":"x","more":1}')
        store.set(*web(1), *web(2))
        self.error(store, 'another writer has written {"format":1,"seq":70')
        store.synced()
        self.assertEqual(self.names(), ["web-1-1", "web-2-1", "web-1", "web-2"])
        self.assertEqual((self.head()["seq"], self.head()["epoch"]), (72, 8))

    def test_an_idle_writer_writes_the_head_and_renews_the_lease(self):
        store = self.store(lease=8)
        store.set()
        store.synced()
        seq = self.head()["seq"]
        until(lambda: self.head()["seq"] > seq, "no new head")  # After 10 s.
        self.assertEqual((self.head()["epoch"], store.errors), (1, []))

    # ---- Failures ----

    def test_a_transaction_is_applied_once_if_its_answer_is_lost(self):
        store = self.store()
        store.set()
        store.synced()
        seq = self.head()["seq"]
        self.proxy.lose_answers = 2
        store.set(*web(1))
        store.synced()
        self.assertEqual((self.proxy.lose_answers, self.head()["seq"]), (0, seq + 1))
        self.assertEqual(self.names(), ["web-1-1", "web-1"])
        self.assertEqual(self.proxy.transactions[-1], self.proxy.transactions[-2])
        self.assertEqual({text for text in ("answer lost", "another writer")
                          if any(text in error["details"] for error in store.errors)}, {"answer lost"})

    def test_an_answer_without_responses_is_reported_and_the_request_is_sent_again(self):
        store = self.store()
        self.proxy.empty_answers = 1
        store.set(*web(1))
        store.synced()
        problem = f"{self.proxy.url}: responses: Invalid value: 0 items: must have "
        self.error(store, f"read of {PREFIX}/leader: {problem}1")
        seq = self.head()["seq"]
        self.proxy.empty_answers = 2  # Of the transaction, and of the same transaction, which then fails.
        store.set(*web(2))
        store.synced()
        self.error(store, f"state/endpointslices/shop/web-2-1, ...: {problem}5")
        self.error(store, f"state/endpointslices/shop/web-2-1, ...: {problem}1")
        self.assertEqual((self.head()["seq"], self.names()), (seq + 1, ["web-2-1", "web-2"]))

    def test_a_lost_transaction_is_sent_again(self):
        store = self.store()
        self.proxy.lose_requests = 2
        store.set(*web(1))
        store.synced()
        self.assertEqual((self.head()["seq"], self.names()), (2, ["web-1-1", "web-1"]))
        self.error(store, f"write of {PREFIX}/state/endpointslices/shop/web-1-1, {PREFIX}/state/services/shop/web-1: "
                          f"{self.proxy.url}: ")

    def test_changes_during_an_outage_are_written_by_the_next_endpoint(self):
        store = self.store(f"unix://{self.folder}/absent.sock,{self.etcd.socket}")
        store.set(*web(1))
        store.synced()
        self.error(store, "absent.sock")
        self.etcd.kill()
        store.set(*web(2))
        self.etcd.start()
        store.synced()
        self.assertEqual(self.names(), ["web-2-1", "web-2"])

    def heads(self):
        """All heads in the history of etcd, in their order."""
        heads = []
        request = etcd.RangeRequest(key=f"{PREFIX}/state/head".encode())
        newest = self.etcd.txn(etcd.RequestOp(request_range=request)).header.revision
        for revision in range(2, newest + 1):
            request.revision = revision
            for pair in self.etcd.txn(etcd.RequestOp(request_range=request)).responses[0].response_range.kvs:
                if pair.mod_revision == revision:
                    heads.append(json.loads(pair.value))
        return heads

    def test_nothing_is_lost_and_no_transaction_is_applied_twice_in_random_failures(self):
        seed = int(os.environ.get("SVCMAP_SEED", "1"))
        chance = random.Random(seed)
        objects = {}
        standby_command = {"command": harness.python_driver("blocking"), "lease": 2}
        store, standby = self.store(lease=2), self.store(self.etcd.socket, **standby_command)

        def restart_etcd():
            self.etcd.kill()
            self.etcd.start()

        def restart_store():
            nonlocal store
            store.kill()
            store = self.store(lease=2)

        def restart_standby():
            nonlocal standby
            standby.kill()
            standby = self.store(self.etcd.socket, **standby_command)

        def isolate():
            """The lease expires, and the standby is elected."""
            self.proxy.block(True)
            standby.synced()
            self.proxy.block(False)

        for round in range(int(os.environ.get("SVCMAP_CLIENTS_ROUNDS", "12"))):
            self.proxy.lose_answers, self.proxy.lose_requests = chance.randrange(3), chance.randrange(2)
            for _ in range(chance.randrange(1, 40)):
                objects[chance.randrange(60)] = f"10.1.{chance.randrange(200)}.{chance.randrange(1, 200)}"
            for number in chance.sample(sorted(objects), chance.randrange(len(objects) // 4 + 1)):
                del objects[number]
            expected = [obj for number, address in objects.items() for obj in web(number, address)]
            standby.set_and_accept_removals(*expected)
            store.set_and_accept_removals(*expected)
            chance.choice((restart_etcd, restart_store, restart_standby, isolate, lambda: None))()
            store.set_and_accept_removals(*expected)
            standby.set_and_accept_removals(*expected)
            with self.subTest(round=round, seed=seed):
                until(lambda: {key: svcmap.EndpointSlice.FromString(pair.value).endpoints[0].addresses[0]
                               for key, pair in self.stored().items() if "endpointslices" in key} ==
                      {f"state/endpointslices/shop/web-{number}-1": address for number, address in objects.items()},
                      lambda: f"{store.errors} {standby.errors}")
                self.assertEqual({name for name in self.names() if name.count("-") == 1},
                                 {f"web-{number}" for number in objects})
        heads = self.heads()
        self.assertEqual([head["seq"] for head in heads], list(range(1, len(heads) + 1)))
        epochs = [head["epoch"] for head in heads]
        self.assertEqual(epochs, sorted(epochs))
        self.assertEqual(len({head["nonce"] for head in heads}), len(heads))

    def test_after_the_restore_of_a_backup_the_missing_changes_are_written_again(self):
        store = self.store()
        store.set(*web(1))
        store.synced()
        self.etcd.control("snapshot", "save", "backup")
        store.set(*web(1, "10.1.0.2"), *web(2))
        store.synced()
        self.etcd.kill()
        self.etcd.restore("backup")
        self.etcd.start()
        store.update(web(3), [])
        store.synced()
        self.assertEqual(self.names(), ["web-1-1", "web-2-1", "web-3-1", "web-1", "web-2", "web-3"])
        self.assertEqual((self.addresses(), self.head()["epoch"]), ({"10.1.0.1", "10.1.0.2"}, 2))

    def test_a_head_that_is_not_valid_is_named(self):
        self.etcd.put(f"{PREFIX}/state/head", b"5")
        store = self.store()
        store.set(*web(1))
        self.error(store, f"{PREFIX}/state/head: Invalid value: 5: must be a head of format 1")
        self.assertEqual(self.names(), [])
        self.etcd.put(f"{PREFIX}/state/head", b'{"format":1,"seq":4,"epoch":3,"nonce":"x"}')
        store.synced()
        self.assertEqual((self.names(), self.head()["epoch"]), (["web-1-1", "web-1"], 4))

    def test_an_object_that_is_too_large_is_named_and_the_others_are_written(self):
        store = self.store()
        store.set(*web(1), *web(2))
        store.synced()
        large = web(1)[1] | {"endpoints": [{"addresses": ["10.1.0.1"], "nodeName": "n" * 1400000}]}
        store.set(web(1)[0], large, *web(3))
        store.synced()
        self.error(store, f"{PREFIX}/state/endpointslices/shop/web-1-1: Too long: 14000")
        self.assertEqual(self.names(), ["web-1-1", "web-3-1", "web-1", "web-3"])
        self.assertEqual((self.addresses(), store.status()["rejected"]), ({"10.1.0.1"}, 1))

    def test_transactions_are_split_by_size(self):
        def large(number, *sizes):
            for part, size in enumerate(sizes):
                obj = web(number)[1] | {"endpoints": [{"addresses": ["10.1.0.1"], "nodeName": "n" * size}]}
                obj["metadata"]["name"] = f"web-{number}-{part}"
                yield obj
        store = self.store()
        store.set(*large(1, 600000), *large(2, 300000, 300000), *large(3, 500000, 500000, 500000))
        store.synced()
        # The slices of web-2 fit into a transaction of their own, and those of web-3 into two.
        self.assertEqual([[op.request_put.key.decode()[-7:] for op in txn.success[1:]]
                          for txn in self.proxy.transactions[1:]],
                         [["web-1-0"], ["web-2-0", "web-2-1"], ["web-3-0", "web-3-1"], ["web-3-2"]])

    def test_a_user_of_etcd_with_mutual_tls_needs_only_the_permission_for_the_prefix(self):
        subprocess.run([harness.go_program("tests/clients/certificates"), self.folder], check=True)
        self.etcd.kill()
        self.etcd.start("--client-cert-auth", f"--trusted-ca-file={self.folder}/ca.pem",
                        f"--cert-file={self.folder}/server.pem", f"--key-file={self.folder}/server.key")
        for command in ("role add writer", f"role grant-permission --prefix=true writer readwrite {PREFIX}/",
                        "user add root:secret", "user grant-role root root", "auth enable"):
            self.etcd.control(*command.split())
        store = self.store(self.etcd.url, inside=self.agent.inside(), certificates=self.folder)
        store.set(*web(1))
        self.error(store, "permission denied")
        for command in ("user add client --no-password", "user grant-role client writer"):
            self.etcd.control("--user=root:secret", *command.split())
        store.synced()
        store.set(*web(1), *web(2))
        store.synced()
        self.assertEqual((store.status()["objects"], store.status()["epoch"]), (4, 1))
        self.assertIsNone(store.close())
        self.etcd.control("--user=root:secret", "auth", "disable")
        self.assertEqual(list(self.etcd.pairs(f"{PREFIX}/")), [
            "state/endpointslices/shop/web-1-1", "state/endpointslices/shop/web-2-1", "state/head",
            "state/services/shop/web-1", "state/services/shop/web-2"])  # And no leader.

    # ---- Removals ----

    def test_wait_before_the_first_list_is_an_error(self):
        store = self.store()
        self.assertIn("wait: no objects: call ", store.wait()["details"])
        store.update([service("web", "10.96.0.1")], [])
        store.synced()

    def test_nothing_is_removed_before_the_list_is_complete(self):
        first = self.store()
        first.set(*web(1), *web(2))
        first.synced()
        self.assertIsNone(first.close())
        store = self.store()
        store.update(web(3), [])
        store.synced()
        store.update([], web(1))
        store.synced()
        self.assertEqual(self.names(), ["web-1-1", "web-2-1", "web-3-1", "web-1", "web-2", "web-3"])
        self.assertEqual(store.status()["held"], 4)
        store.set(*web(2), *web(3))
        store.synced()
        self.assertEqual(self.names(), ["web-2-1", "web-3-1", "web-2", "web-3"])
        self.assertEqual((store.status()["held"], store.errors), (0, []))

    def test_removals_of_a_list_that_lacks_most_objects_are_held(self):
        store = self.store()
        store.set(*webs(20))
        store.synced()
        self.assertIsNone(store.close())
        store = self.store()  # The new writer has not read the keys when it gets its list.
        store.set(*webs(10), *web(20))
        store.synced()
        self.error(store, "would remove 10 of 20 endpointslices, 10 of 20 services")
        self.assertEqual((len(self.names()), store.status()["held"]), (42, 20))
        store.update([], web(19))  # Explicit removals are always written.
        store.synced()
        self.assertEqual((len(self.names()), store.status()["held"]), (40, 18))
        store.set(*webs(12))
        store.synced()
        self.assertEqual((len(self.names()), store.status()["held"]), (24, 0))
        store.set_and_accept_removals()
        store.synced()
        self.assertEqual(self.names(), [])

    # ---- Nodes and examples ----

    def test_the_example_keeps_etcd_equal_to_a_file(self):
        file = self.folder / "list.json"
        file.write_text(json.dumps(kubernetes_list([NODE, *web(1), *web(2)])))
        example = subprocess.Popen([*self.EXAMPLE, str(file), self.proxy.url, PREFIX], env=python_environment(),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def stop():
            example.kill()
            example.wait()
        self.addCleanup(stop)
        until(lambda: self.names() == ["n1", "web-1-1", "web-2-1", "web-1", "web-2"], self.names)
        new = file.with_suffix(".new")
        new.write_text(json.dumps(kubernetes_list([NODE, *web(2)])))
        new.rename(file)
        until(lambda: self.names() == ["n1", "web-2-1", "web-2"], self.names)

    def test_nodes_receive_the_objects(self):
        self.agent.start()
        log = open(self.folder / "svcmap-etcd.log", "wb")
        source = subprocess.Popen(self.agent.inside(
            BIN / "svcmap-etcd", "--etcd-endpoints", self.etcd.url, "--prefix", PREFIX, "--agent", self.agent.target,
            "--node-name", "n1", "--list-delay", "0"), stdout=log, stderr=log)
        log.close()

        def stop():
            source.kill()
            source.wait()
        self.addCleanup(stop)
        store = self.store()
        store.set(NODE, *webs(100))
        until(lambda: len(self.agent.objects()) == 201, "the node has not received the list")
        store.update(web(7, "10.1.0.9"), web(8))
        until(lambda: len(self.agent.objects()) == 199, "the node has not received the removal")
        self.assertEqual(self.agent.objects()["endpoint_slice", "web-7-1"].endpoints[0].addresses[0], "10.1.0.9")
        for _ in range(2):  # Also with a new writer.
            self.assertIsNone(store.close())
            store = self.store()
            store.set(NODE, *webs(100))
            until(lambda: len(self.agent.objects()) == 201, "the node has not received the list of the new writer")
        # svcmap-etcd has accepted the sequence of heads, because it has listed the objects only once.
        self.assertEqual((self.folder / "svcmap-etcd.log").read_text().count("listed objects"), 1)


class BlockingTest(Stores, unittest.TestCase):
    COMMAND = harness.python_driver("blocking")
    EXAMPLE = [PYTHON, str(TOP / "api/clients/python/examples/fleet.py")]

    def test_invalid_arguments_are_named(self):
        for endpoints, prefix, text in (
                ("http://a:1", "/p", "endpoints: Invalid value: 'http://a:1': must be a list"),
                ([], "/p", "endpoints: Invalid value"),
                (["a:1"], "/p", 'endpoints: Invalid value: "a:1": must be http://'),
                (["https://a:1"], "/p", "credentials are required"),
                (["http://a:1"], "p", 'prefix: Invalid value: "p"'),
                (["http://a:1"], "/p/", 'prefix: Invalid value: "/p/"')):
            with self.assertRaises(ValueError) as caught:
                svcmap.Store(endpoints, prefix)
            self.assertIn(text, str(caught.exception))
        store = svcmap.Store(["http://a:1"], "/p")
        for obj in (svcmap.Service(metadata={"name": "a"}), svcmap.Node(metadata={"name": "a", "namespace": "b"}),
                    svcmap.Service(metadata={"name": "a/b", "namespace": "c"}), svcmap.Node()):
            with self.assertRaisesRegex(ValueError, "metadata: Invalid value: namespace "):
                store.set([obj])
        store.close()
        with self.assertRaises(svcmap.Closed):
            store.set([])


class GoTest(Stores, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.COMMAND = harness.go_driver()
        cls.EXAMPLE = [harness.go_program("api/clients/go/examples/fleet")]


if __name__ == "__main__":
    unittest.main()
