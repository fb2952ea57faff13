"""The certificate files of the Python client, with a TLS server in this process."""
import pathlib
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import unittest

import harness

import svcmap


class Server:
    """Accepts TLS connections with client certificates, and closes them after the handshake."""

    def __init__(self, folder, certificate):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / f"{certificate}.pem", folder / f"{certificate}.key")
        context.load_verify_locations(folder / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while True:
            try:
                connection, _ = self._listener.accept()
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
