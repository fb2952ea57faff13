"""TLS of the clients, with a TLS server in this process."""
import pathlib
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import unittest
from unittest import mock

import harness

import svcmap
from svcmap import _agent


class Server:
    """Accepts TLS connections with client certificates, and closes them after the handshake."""

    def __init__(self, folder, certificate):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / f"{certificate}.pem", folder / f"{certificate}.key")
        context.load_verify_locations(folder / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        self._context = context
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while True:
            try:
                connection, _ = self._listener.accept()
                self.connections += 1
            except OSError:
                return
            try:
                with self._context.wrap_socket(connection, server_side=True):
                    pass
            except OSError:
                pass

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


class TlsFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        subprocess.run([harness.go_program("tests/clients/certificates"), folder.name], check=True)

    def problem(self, *, ca="ca", client="client", server="server"):
        running = Server(self.folder, server)
        try:
            return svcmap.TlsFiles(ca=self.folder / f"{ca}.pem", certificate=self.folder / f"{client}.pem",
                                   key=self.folder / f"{client}.key").problem(running.address)
        finally:
            running.close()

    def test_names_why_a_certificate_is_rejected(self):
        self.assertEqual(self.problem(), "")
        self.assertEqual(self.problem(server="expired-server"),
                         "the agent's certificate is rejected: certificate has expired")
        self.assertEqual(self.problem(ca="other-ca"),
                         "the agent's certificate is rejected: self-signed certificate in certificate chain")
        self.assertEqual(self.problem(client="expired-client"),
                         "the agent rejected the client certificate, which has expired")
        self.assertEqual(self.problem(client="other-ca"), "the agent rejected the client certificate, because no "
                         "CA in its --tls-client-ca has signed it")

    def test_reports_a_rejected_certificate_once(self):
        expired = Server(self.folder, "expired-server")
        self.addCleanup(expired.close)
        go_reason = "TLS handshake failed: x509: certificate has expired or is not yet valid: "
        for command, reason in ((harness.go_driver(), go_reason), (harness.python_driver("blocking"),
                                "the agent's certificate is rejected: certificate has expired")):
            with self.subTest(command):
                client = harness.Driver(command, f"tcp://{expired.address}", certificates=self.folder)
                self.addCleanup(client.kill)
                before = expired.connections
                client.set()
                # Python also connects to find the reason.
                harness.until(lambda: expired.connections >= before + 6, lambda: client.errors)
                self.assertEqual(len(client.errors), 1, client.errors)
                self.assertTrue(client.errors[0]["details"].startswith(reason), client.errors)
                self.assertNotIn("\n", client.errors[0]["details"])
                client.kill()

    @mock.patch.object(_agent, "_LAST_RETRY", 0.05)
    def test_reports_a_certificate_again_if_the_problem_changes(self):
        problems, errors, done = ["expired", "expired", "no CA", "", "no CA", "no CA"], [], threading.Event()

        class Files(svcmap.TlsFiles):
            def problem(self, address):
                if not problems:
                    done.set()
                    return "no CA"
                return problems.pop(0)

        files = Files(ca=self.folder / "ca.pem", certificate=self.folder / "client.pem", key=self.folder / "client.key")
        with socket.create_server(("127.0.0.1", 0)) as unused:
            address = "tcp://127.0.0.1:%d" % unused.getsockname()[1]
        with svcmap.Agent(address, name="test", credentials=files,
                          on_error=lambda e: errors.append(e.details)) as client:
            client.set([])
            self.assertTrue(done.wait(harness.PATIENCE))
        self.assertEqual(errors[:2] + errors[3:], ["expired", "no CA", "no CA"])

    def test_names_both_files_if_the_key_does_not_belong_to_the_certificate(self):
        certificate, key = self.folder / "client.pem", self.folder / "expired-client.key"
        files = svcmap.TlsFiles(ca=self.folder / "ca.pem", certificate=certificate, key=key)
        errors = []
        with svcmap.Agent("tcp://127.0.0.1:1", name="test", credentials=files, on_error=errors.append) as client:
            client.set([])
            harness.until(lambda: errors, "an error")
        self.assertIn(f"certificate {certificate} and private key {key}: ", str(errors[0]))
        self.assertIn("the key must belong to the certificate", str(errors[0]))

    def test_reads_the_files_for_each_connection(self):
        for name in ("pem", "key"):
            shutil.copy(self.folder / f"expired-client.{name}", self.folder / f"rotated.{name}")
        files = svcmap.TlsFiles(ca=self.folder / "ca.pem", certificate=self.folder / "rotated.pem",
                                key=self.folder / "rotated.key")
        server = Server(self.folder, "server")
        self.addCleanup(server.close)
        self.assertIn("has expired", files.problem(server.address))
        for name in ("pem", "key"):
            shutil.copy(self.folder / f"client.{name}", self.folder / f"rotated.{name}")
        self.assertEqual(files.problem(server.address), "")
        (self.folder / "rotated.pem").unlink()
        with self.assertRaises(FileNotFoundError):
            files()


if __name__ == "__main__":
    unittest.main()
