"""Each client against a fake agent that checks what controllers send (fake_agent.py)."""
import asyncio
import os
import pathlib
import tempfile
import threading
import unittest

import harness
from harness import Driver, endpoint_slice, service, until

import grpc
import svcmap.aio
from fake_agent import End, FakeAgent
from svcmap.v1 import control_pb2 as control, objects_pb2 as services


def error(code, details, reason="ERROR_REASON_UNSPECIFIED"):
    """An error in the form of the drivers."""
    return {"code": code, "details": details, "reason": reason}


REPLACED = error(10, "any text; an agent accepts only one controller at a time: use leader election and epochs if "
                 "several instances run, and give each of them a different instance name", "REPLACED")


def replaced(name, instance):
    return End(grpc.StatusCode.ABORTED, "any text", control.REPLACED, name=name, instance=instance)


class Contract:
    """The tests of all clients."""
    COMMAND = []

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.agent = None

    def serve(self, **limits):
        self.agent = FakeAgent(self.folder / "agent.sock", **limits)
        self.addCleanup(self._stop_agent)
        return self.agent

    def _stop_agent(self):
        self.agent.stop()
        self.assertEqual(self.agent.violations, [])

    def client(self, **settings):
        client = Driver(self.COMMAND, f"unix://{self.folder}/agent.sock", **settings)
        self.addCleanup(client.kill)
        return client

    def stateful(self):
        return self.client(state_file=self.folder / "sent")

    # ---- Snapshot and differences ----

    def test_sends_a_snapshot_and_then_only_differences(self):
        agent, client = self.serve(), self.client()
        web = [service("web", "10.96.0.1"), endpoint_slice("web", "10.1.0.1")]
        client.set(*web)
        client.synced()
        self.assertEqual(agent.messages, ["begin", ["+web-1", "+web"], "end"])
        client.set(*web)
        client.apply(*web)
        client.remove(service("other", ""))
        client.synced()
        self.assertEqual(len(agent.messages), 3)
        client.set(web[0], endpoint_slice("web", "10.1.0.2"), service("dns", "10.96.0.2"))
        client.synced()
        self.assertEqual(agent.messages[3:], [["+web-1", "+dns"]])
        client.set(service("dns", "10.96.0.2"))
        client.synced()
        self.assertEqual(agent.messages[4:], [["-web", "-web-1"]])
        client.apply(service("web", "10.96.0.1"))
        client.synced()
        client.remove(service("dns", ""))
        client.synced()
        self.assertEqual(agent.messages[5:], [["+web"], ["-dns"]])
        self.assertEqual(agent.names(), ["web"])
        self.assertEqual(client.status(), {
            "connected": True, "node_name": "fake", "objects": 1, "rejected": 0, "held": "", "changes": 8,
            "batches": 5, "snapshots": 1, "resumed": 0})

    def test_an_empty_list_is_an_empty_snapshot(self):
        agent, client = self.serve(), self.client()
        agent.objects[1, "shop", "old"] = b""
        client.set()
        client.synced()
        self.assertEqual((agent.messages, agent.objects), (["begin", "end"], {}))

    def test_a_list_that_lacks_most_objects_is_sent_as_a_snapshot(self):
        agent, client = self.serve(), self.client()
        agent.hold_removals = True
        many = [service(f"s{i}", f"10.96.0.{i}") for i in range(20)]
        client.set(*many)
        client.synced()
        client.set(*many[:11])
        client.synced()
        self.assertNotIn("begin", agent.messages[3:])
        self.assertEqual(len(agent.names()), 11)
        client.set(*many)
        client.synced()
        del agent.messages[:]
        client.set()
        client.synced()
        self.assertEqual((agent.messages, len(agent.names())), (["begin", "end"], 20))
        until(lambda: client.errors, "no error")
        self.assertIn("would remove 20 of 20 objects; run \"svcmapctl accept-snapshot\"",
                      client.errors[0]["details"])
        self.assertEqual((client.status()["snapshots"], client.status()["held"]), (2, "20 of 20 objects"))
        client.set(*many[:3])
        client.synced()
        self.assertEqual(client.status()["held"], "20 of 20 objects")
        # The cache of the controller is complete now.
        client.set(*many)
        client.synced()
        self.assertEqual((len(agent.messages), client.status()["held"]), (4, ""))
        client.set_and_accept_removals()
        client.synced()
        self.assertEqual(agent.names(), [])

    def test_held_removals_are_confirmed_with_the_same_list(self):
        agent, client = self.serve(), self.client()
        agent.hold_removals = True
        many = [service(f"s{i}", f"10.96.0.{i}") for i in range(20)]
        client.set(*many)
        client.synced()
        client.set(many[0])
        client.synced()
        self.assertEqual((len(agent.names()), client.status()["held"]), (20, "19 of 20 objects"))
        client.set_and_accept_removals(many[0])
        client.synced()
        self.assertEqual((agent.names(), client.status()["held"]), (["s0"], ""))

    def test_removals_are_confirmed_before_the_ack_that_holds_them(self):
        agent, client = self.serve(), self.client()
        agent.hold_removals = True
        client.set(*(service(f"s{i}", f"10.96.0.{i}") for i in range(20)))
        client.synced()
        agent.hold_acks = True
        client.set()
        agent.until(lambda: agent.messages[-2:] == ["begin", "end"])
        client.set_and_accept_removals()
        agent.release_acks()
        client.synced()
        self.assertEqual((agent.names(), client.status()["held"]), ([], ""))

    def test_fewer_than_20_objects_are_not_protected(self):
        agent, client = self.serve(), self.client()
        agent.hold_removals = True
        client.set(*(service(f"s{i}", f"10.96.0.{i}") for i in range(19)))
        client.synced()
        client.set()
        client.synced()
        self.assertEqual((agent.names(), client.errors, client.status()["snapshots"]), ([], [], 1))

    def test_a_resumed_stream_sends_a_snapshot_if_the_list_lacks_most_objects(self):
        agent, client = self.serve(), self.stateful()
        many = [service(f"s{i}", f"10.96.0.{i}") for i in range(20)]
        client.set(*many)
        client.synced()
        client.kill()
        agent.hold_removals = True
        del agent.messages[:]
        client = self.stateful()
        client.set()
        client.synced()
        self.assertEqual((agent.messages, len(agent.names())), (["begin", "end"], 20))

    def test_several_versions_of_an_object_are_a_warning(self):
        agent, client = self.serve(), self.client()
        client.set(service("web", "10.96.0.1"), service("dns", "10.96.0.2"), service("web", "10.96.0.3"))
        client.synced()
        until(lambda: client.results, "no result")
        self.assertEqual(client.results, [
            "Service shop/web: the list contains several versions of the object; the last version is used"])
        stored = services.Service.FromString(agent.objects[control.KIND_SERVICE, "shop", "web"])
        self.assertEqual(stored.spec.cluster_ip, "10.96.0.3")

    def test_sends_nothing_before_the_first_set(self):
        agent, client = self.serve(), self.client()
        client.apply(service("web", "10.96.0.1"))
        # A second controller connects later than the first one could have connected.
        other = self.client(instance="host-2")
        other.set(service("dns", "10.96.0.2"))
        other.synced()
        self.assertEqual([o.instance for o in agent.opens], ["host-2"])

    def test_wait_before_the_first_set_is_an_error(self):
        client = self.client()
        self.assertIn("wait: no list of objects: call ", client.wait()["details"])
        client.apply(service("web", "10.96.0.1"))
        self.assertIn("wait: no list of objects: call ", client.wait()["details"])

    def test_opens_with_name_instance_and_epoch(self):
        agent, client = self.serve(), self.client(name="planner", instance="pod-7", epoch=(1 << 63) + 1)
        client.set()
        client.synced()
        opened = agent.opens[0]
        self.assertEqual((opened.name, opened.instance, opened.epoch, opened.state_token),
                         ("planner", "pod-7", (1 << 63) + 1, b""))

    def test_the_default_instance_is_the_host_name(self):
        agent, client = self.serve(), self.client(instance=None)
        client.set()
        client.synced()
        self.assertEqual(agent.opens[0].instance, os.uname().nodename)

    # ---- Limits ----

    def test_merges_changes_while_acks_are_missing(self):
        agent, client = self.serve(), self.client()
        client.set()
        client.synced()
        agent.hold_acks = True
        for i in range(100):
            client.apply(service("web", f"10.96.1.{i}"), service(f"other-{i}", f"10.96.2.{i}"))
        agent.until(lambda: len(agent.messages) == 2 + 8)
        self.assertIsNotNone(client.wait(timeout=0.05))
        agent.release_acks()
        client.synced()
        self.assertEqual(len(agent.objects), 101)
        self.assertIn(b"10.96.1.99", agent.objects[1, "shop", "web"])
        self.assertLess(agent.sent().count("+web"), 12)
        self.assertEqual(agent.sent().count("+other-99"), 1)

    def test_splits_batches_by_size_and_rejects_what_cannot_be_sent(self):
        agent, client = self.serve(max_batch_bytes=4096), self.client()
        large = endpoint_slice("large", *(f"10.1.{i // 250}.{i % 250}" for i in range(300)))
        client.set(large, *(service(f"web-{i}", f"10.96.0.{i}") for i in range(200)))
        client.synced()
        self.assertEqual(len(agent.objects), 200)
        self.assertGreater(len(agent.messages), 4)
        [result] = client.results
        self.assertRegex(result, r"^EndpointSlice shop/large-1 rejected: Too long: \d+ bytes: must fit into a "
                         "message of --max-batch-bytes 4096; ")
        client.apply(endpoint_slice("large", "10.1.0.1"))
        client.synced()
        self.assertEqual(len(agent.objects), 201)
        self.assertEqual(client.status()["rejected"], 0)

    def test_splits_batches_by_count(self):
        agent, client = self.serve(), self.client()
        client.set(*(service(f"web-{i}", f"10.96.{i // 250}.{i % 250}") for i in range(2500)))
        client.synced()
        self.assertEqual([len(m) for m in agent.messages[1:-1]], [1000, 1000, 500])

    def test_respects_the_number_of_batches_in_flight(self):
        agent, client = self.serve(max_batch_bytes=4096, max_in_flight=2), self.client()
        agent.hold_acks = True
        client.set(*(service(f"web-{i}", f"10.96.0.{i}") for i in range(200)))
        agent.until(lambda: len(agent.messages) == 3)
        agent.release_acks()
        client.synced()
        self.assertEqual(len(agent.objects), 200)

    def test_respects_the_bytes_in_flight(self):
        agent, client = self.serve(max_batch_bytes=4096, max_bytes_in_flight=4096), self.client()
        agent.hold_acks = True
        client.set(*(service(f"web-{i}", f"10.96.0.{i}") for i in range(200)))
        agent.until(lambda: len(agent.messages) == 2)
        self.assertIsNotNone(client.wait(timeout=0.05))
        self.assertEqual(len(agent.messages), 2)
        agent.release_acks()
        client.synced()
        self.assertEqual(len(agent.objects), 200)

    # ---- Broken streams ----

    def test_resumes_after_a_lost_batch(self):
        agent, client = self.serve(), self.client()
        client.set(service("web", "10.96.0.1"), service("dns", "10.96.0.2"))
        client.synced()
        agent.lose_next_batch = True
        client.apply(service("web", "10.96.0.3"))
        client.synced()
        self.assertEqual(agent.messages[2:], ["end", ["+web"]])
        self.assertIn(b"10.96.0.3", agent.objects[1, "shop", "web"])
        self.assertEqual(client.errors, [error(14, "lost batch")])
        self.assertEqual(client.status()["resumed"], 1)

    def test_sends_a_snapshot_after_a_lost_ack(self):
        agent, client = self.serve(), self.client()
        client.set(service("web", "10.96.0.1"), service("dns", "10.96.0.2"))
        client.synced()
        agent.lose_next_ack = True
        client.apply(service("web", "10.96.0.3"))
        client.synced()
        self.assertEqual(agent.messages[3:5], [["+web"], "begin"])
        self.assertEqual(sorted(agent.messages[5]), ["+dns", "+web"])
        self.assertEqual(agent.messages[6:], ["end"])

    def test_a_broken_snapshot_is_repeated(self):
        agent, client = self.serve(), self.client()
        agent.lose_next_batch = True
        client.set(service("web", "10.96.0.1"))
        client.synced()
        self.assertEqual(agent.messages, ["begin", "begin", ["+web"], "end"])

    def test_sends_the_latest_versions_after_a_restart_of_the_agent(self):
        agent, client = self.serve(), self.client()
        client.set(service("web", "10.96.0.1"), service("dns", "10.96.0.2"))
        client.synced()
        agent.stop()
        client.apply(service("web", "10.96.0.3"))
        client.remove(service("dns", ""))
        client.apply(service("web", "10.96.0.4"))
        agent.start()
        client.synced()
        self.assertEqual(agent.messages[3:], [["+web", "-dns"]])
        self.assertIn(b"10.96.0.4", agent.objects[1, "shop", "web"])

    def test_sends_a_snapshot_if_the_agent_lost_its_objects(self):
        agent, client = self.serve(), self.client()
        client.set(service("web", "10.96.0.1"))
        client.synced()
        agent.stop()
        agent.objects.clear()
        agent.start()
        agent.until(lambda: agent.messages[3:] == ["begin", ["+web"], "end"])

    def test_retries_with_increasing_pauses(self):
        agent = self.serve()
        agent.end_with = [End(grpc.StatusCode.UNAVAILABLE, "not yet")] * 3
        client = self.client()
        client.set()
        client.synced()
        times = agent.open_times
        pauses = [after - before for before, after in zip(times, times[1:])]
        for pause, least in zip(pauses, (0.1, 0.2, 0.4)):
            self.assertGreaterEqual(pause, least)
        self.assertEqual(client.errors, [error(14, "not yet")] * 3)

    def test_an_ack_resets_the_pauses(self):
        agent = self.serve()
        agent.end_with = [End(grpc.StatusCode.UNAVAILABLE, "not yet")] * 3
        client = self.client()
        client.set()
        client.synced()
        # Without a reset, each pause would be at least 0.8 s. On a busy machine, some pauses take longer
        # than the client waits.
        for i in range(20):
            agent.lose_next_batch = True
            client.apply(service("web", f"10.96.0.{i + 1}"))
            client.synced()
            if agent.open_times[-1] - agent.open_times[-2] < 0.8:
                return
        self.fail(f"no short pause: {agent.open_times}")

    def test_reconnects_after_an_unexpected_ack(self):
        agent, client = self.serve(), self.client()
        agent.ack_offset = 5
        client.set(service("web", "10.96.0.1"))
        until(lambda: client.errors, "an error")
        agent.ack_offset = 0
        client.synced()
        self.assertRegex(client.errors[0]["details"], "unexpected Ack with number 6")
        self.assertEqual(agent.names(), ["web"])

    # ---- Final errors ----

    def test_stops_if_another_instance_is_the_leader(self):
        agent = self.serve()
        agent.end_with = [End(grpc.StatusCode.FAILED_PRECONDITION, "epoch 6", control.EPOCH_REJECTED)]
        client = self.client(epoch=6)
        client.set()
        expected = error(9, "epoch 6", "EPOCH_REJECTED")
        self.assertEqual(client.wait(), expected)
        self.assertEqual(client.errors, [expected])
        for do in ("set", "apply", "remove"):
            self.assertEqual(client.change(do, service("web", "10.96.0.1")), expected)
        self.assertEqual(client.wait(), expected)
        self.assertEqual(client.close(), expected)
        self.assertEqual((client.errors, len(agent.opens)), ([expected], 1))

    def test_stops_if_another_controller_replaces_it(self):
        for name, instance in (("test", "host-2"), ("other", "host-1"), ("", "")):
            with self.subTest(name=name, instance=instance):
                agent = self.serve()
                agent.end_with = [replaced(name, instance)]
                client = self.client()
                client.set()
                self.assertEqual(client.wait(), REPLACED)
                self.assertEqual(len(agent.opens), 1)
                client.kill()
                agent.stop()

    def test_reconnects_once_if_its_own_delayed_open_replaces_it(self):
        agent = self.serve()
        own = replaced("test", "host-1")
        agent.end_with = [own]
        client = self.client()
        client.set()
        client.synced()
        expected = error(10, "any text", "REPLACED")
        self.assertEqual(client.errors, [expected])
        agent.end_with = [own, own]
        agent.hold_acks = True
        client.apply(service("web", "10.96.0.1"))
        agent.until(lambda: len(agent.messages) == 3)
        agent.break_stream()
        self.assertEqual(client.wait(), REPLACED)
        self.assertEqual((len(client.errors), client.errors[2:]), (4, [expected, REPLACED]))
        self.assertEqual(len(agent.opens), 4)

    # ---- Rejected objects ----

    def test_reports_rejected_objects_and_does_not_repeat_them(self):
        agent, client = self.serve(), self.client()
        agent.refused_names = {"bad"}
        client.set(service("web", "10.96.0.1"), service("bad", "nonsense"))
        client.synced()
        self.assertEqual(client.results, ["bad rejected"])
        client.apply(service("web", "10.96.0.2"), service("bad", "nonsense"))
        client.synced()
        self.assertEqual(sorted(agent.sent()), ["+bad", "+web", "+web"])
        self.assertEqual(client.status()["rejected"], 1)
        agent.refused_names = set()
        client.apply(service("bad", "10.96.0.3"))
        client.synced()
        self.assertEqual(agent.names(), ["bad", "web"])
        self.assertEqual(client.status()["rejected"], 0)

    def test_logs_results_and_errors_without_callbacks(self):
        agent, client = self.serve(), self.client(log=True)
        agent.refused_names, agent.hold_removals = {"bad"}, True
        agent.objects[1, "shop", "old"] = b""
        agent.end_with = [End(grpc.StatusCode.UNAVAILABLE, "not yet")]
        client.set(service("bad", "nonsense"))
        client.synced()
        until(lambda: len(client.logs) == 3, lambda: client.logs)
        for line, expected in zip(client.logs, ("not yet", "bad rejected", "would remove 1 of 1 objects")):
            self.assertIn(f"{agent.target}: ", line)
            self.assertIn(expected, line)
        self.assertEqual((client.status()["rejected"], client.status()["held"]), (1, "1 of 1 objects"))
        agent.end_with = [End(grpc.StatusCode.FAILED_PRECONDITION, "epoch 6", control.EPOCH_REJECTED)]
        agent.break_stream()
        until(lambda: len(client.logs) == 5, lambda: client.logs)
        self.assertIn("epoch 6", client.logs[4])

    def test_removes_the_previous_version_of_a_rejected_object(self):
        agent, client = self.serve(), self.stateful()
        client.set(service("web", "10.96.0.1"), service("dns", "10.96.0.2"))
        client.synced()
        client.kill()
        (self.folder / "sent").unlink()
        # The snapshot of the next run contains a version that the agent rejects.
        agent.refused_names = {"web"}
        client = self.stateful()
        client.set(service("web", "nonsense"), service("dns", "10.96.0.2"))
        client.synced()
        self.assertEqual(agent.names(), ["dns", "web"])
        client.kill()
        client = self.stateful()
        client.set(service("dns", "10.96.0.2"))
        client.synced()
        self.assertEqual((agent.names(), client.status()["resumed"]), (["dns"], 1))

    # ---- Restarts of the controller ----

    def test_a_restarted_controller_sends_only_differences(self):
        agent, client = self.serve(), self.stateful()
        web, dns, ntp = (service(n, f"10.96.0.{i}") for i, n in enumerate(("web", "dns", "ntp")))
        client.set(web, dns, ntp)
        client.apply(service("dns", "10.96.0.9"))
        client.synced()
        client.kill()
        count = len(agent.messages)
        client = self.stateful()
        client.set(web, service("dns", "10.96.0.9"), ntp)
        client.synced()
        self.assertEqual((agent.messages[count:], client.status()["resumed"]), ([], 1))
        client.kill()
        client = self.stateful()
        client.set(web, service("dns", "10.96.0.8"))
        client.synced()
        self.assertEqual(agent.messages[count:], [["+dns", "-ntp"]])

    def test_without_a_state_file_a_restarted_controller_sends_a_snapshot(self):
        agent, client = self.serve(), self.client()
        client.set(service("web", "10.96.0.1"))
        client.synced()
        client.kill()
        client = self.client()
        client.set(service("web", "10.96.0.1"))
        client.synced()
        self.assertEqual(agent.messages, ["begin", ["+web"], "end"] * 2)

    def test_a_damaged_state_file_leads_to_a_snapshot(self):
        agent, client = self.serve(), self.stateful()
        client.set(service("web", "10.96.0.1"))
        client.synced()
        for i in range(3):
            client.apply(service("web", f"10.96.0.{i + 2}"))
            client.synced()
        client.kill()
        path = self.folder / "sent"
        lines = path.read_bytes().splitlines(keepends=True)
        self.assertEqual(len(lines), 4)
        good = b"".join(lines)
        damaged = {
            "truncated": good[:-10], "no newline": good[:-1], "missing record": lines[0] + lines[2] + lines[3],
            "zeros": lines[0] + lines[1] + bytes(len(lines[2])) + lines[3], "text": b"text\n", "empty": b"",
            "other JSON": b"[1]\n", "other types": b'{"token": 5, "objects": [1]}\n'}
        for name, content in damaged.items():
            with self.subTest(name):
                path.write_bytes(content)
                client = self.stateful()
                client.set(service("web", "10.96.0.4"))
                client.synced()
                self.assertEqual(client.status()["snapshots"], 1)
                client.kill()
        path.write_bytes(good)
        client = self.stateful()
        client.set(service("web", "10.96.0.4"))
        client.synced()
        self.assertEqual(client.status()["resumed"], 1)

    def test_the_state_file_stays_small(self):
        _, client = self.serve(), self.stateful()
        client.set()
        client.synced()
        names = [f"{i}-{'long' * 50}" for i in range(250)]
        for i in range(30):  # More than 1 MiB of records.
            client.apply(*(service(name, f"10.96.{i}.1") for name in names))
            client.synced()
        self.assertLess((self.folder / "sent").stat().st_size, 3 << 19)
        client.kill()
        client = self.stateful()
        client.set(*(service(name, "10.96.29.1") for name in names))
        client.synced()
        self.assertEqual((client.status()["resumed"], client.status()["changes"]), (1, 0))

    def test_without_a_token_the_next_run_sends_a_snapshot(self):
        agent, client = self.serve(), self.stateful()
        client.set(service("web", "10.96.0.1"))
        client.synced()
        agent.foreign = True
        client.apply(service("web", "10.96.0.2"))
        client.synced()
        client.kill()
        client = self.stateful()
        client.set(service("web", "10.96.0.2"))
        client.synced()
        self.assertEqual([bool(o.state_token) for o in agent.opens], [False, False])
        self.assertEqual(client.status()["snapshots"], 1)

    # ---- Close ----

    def test_close_waits_for_acks_and_saves_them(self):
        agent, client = self.serve(), self.stateful()
        client.set(service("web", "10.96.0.1"))
        client.synced()
        agent.hold_acks = True
        client.apply(service("web", "10.96.0.2"))
        agent.until(lambda: len(agent.messages) == 4)
        closer = _Thread(client.close)
        agent.until(lambda: agent.half_closed == 1)
        agent.release_acks()
        self.assertIsNone(closer.result())
        client.kill()
        client = self.stateful()
        client.set(service("web", "10.96.0.2"))
        client.synced()
        self.assertEqual((client.status()["resumed"], client.status()["changes"]), (1, 0))

    def test_close_without_an_agent_returns_at_once(self):
        client = self.client()
        client.set()
        until(lambda: client.errors, "an error")
        self.assertIsNone(client.close())
        self.assertRegex(client.wait()["details"], "closed")

    def test_close_before_the_first_set(self):
        client = self.client()
        self.assertIsNone(client.close())
        for do in ("set", "apply", "remove"):
            self.assertRegex(client.change(do, service("web", "10.96.0.1"))["details"], "closed")


class _TimeoutContract(Contract):
    """With asyncio, a timeout cancels wait(), so its error has no text."""

    def test_a_timeout_names_the_target_and_the_last_connection_error(self):
        client = self.client()
        client.set()
        until(lambda: client.errors, "an error")
        timeout = client.wait(timeout=0.05)["details"]
        self.assertIn(f"unix://{self.folder}/agent.sock: the agent has not acknowledged all changes", timeout)
        self.assertIn("last connection error: ", timeout)
        self.assertIn(client.errors[0]["details"], timeout)


class _Thread:
    """A call in another thread."""

    def __init__(self, call):
        self._answer = []
        self._thread = threading.Thread(target=lambda: self._answer.append(call()))
        self._thread.start()

    def result(self):
        self._thread.join()
        return self._answer[0]


class BlockingTest(_TimeoutContract, unittest.TestCase):
    COMMAND = harness.python_driver("blocking")

    def test_only_the_final_error_is_stopped(self):
        agent, errors = self.serve(), []
        agent.end_with = [replaced("test", "host-1"), replaced("test", "host-1")]
        with svcmap.Agent(agent.target, name="test", instance="host-1", on_error=errors.append) as client:
            client.set([])
            with self.assertRaises(svcmap.Stopped):
                client.wait(harness.PATIENCE)
            self.assertEqual([type(e) for e in errors], [svcmap.StreamError, svcmap.Stopped])
            self.assertIs(errors[-1], client.error)
            self.assertIs(client.error.reason, svcmap.ErrorReason.REPLACED)
            self.assertEqual(f"{client.error.reason}", "ErrorReason.REPLACED")


class AsyncioTest(Contract, unittest.TestCase):
    COMMAND = harness.python_driver("asyncio")

    def test_callbacks_run_in_the_event_loop(self):
        agent = self.serve()
        agent.refused_names = {"bad"}
        threads = []

        async def run():
            threads.append(threading.get_ident())
            async with svcmap.aio.Agent(agent.target, name="test",
                                        on_result=lambda _: threads.append(threading.get_ident())) as client:
                client.set([svcmap.Service(metadata={"namespace": "shop", "name": "bad"})])
                await client.wait()
                self.assertEqual(len(threads), 2)

        asyncio.run(run())
        self.assertEqual(threads[0], threads[1])

    def test_cancelled_waits_leave_no_waiters(self):
        async def run():
            async with svcmap.aio.Agent(f"unix://{self.folder}/agent.sock", name="test") as client:
                client.set([])
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(client.wait(), 0.01)
                self.assertEqual(client._agent._waiters, [])

        asyncio.run(run())


class GoTest(_TimeoutContract, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.COMMAND = harness.go_driver()


if __name__ == "__main__":
    unittest.main()
