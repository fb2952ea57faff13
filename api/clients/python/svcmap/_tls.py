"""Certificate files that can be replaced while the client runs."""
import pathlib
import re
import socket
import ssl

import grpc

_TIMEOUT = 2.0
_ALERTS = {
    "CERTIFICATE_EXPIRED": "the agent rejected the client certificate, which has expired",
    "UNKNOWN_CA": "the agent rejected the client certificate, because no CA in its --tls-client-ca has signed it",
    "CERTIFICATE_REQUIRED": "the agent requires a client certificate",
    "HANDSHAKE_FAILURE": "the agent requires a client certificate",
}


class TlsFiles:
    """PEM files for mutual TLS: the CAs that sign the certificates of agents, and the certificate and the
    private key of the controller. The files are read for each new connection, so they can be replaced at any
    time. Replace them with a rename."""

    def __init__(self, *, ca, certificate, key):
        self._ca, self._certificate, self._key = ca, certificate, key

    def __call__(self) -> grpc.ChannelCredentials:
        authority, certificate, key = (
            pathlib.Path(path).read_bytes() for path in (self._ca, self._certificate, self._key))
        try:  # gRPC does not report why it cannot use a pair. The empty password prevents a prompt.
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(self._certificate, self._key, password="")
        except ssl.SSLError as error:
            raise OSError(f"certificate {self._certificate} and private key {self._key}: must be PEM files without a "
                          f"password, and the key must belong to the certificate: {error}") from None
        return grpc.ssl_channel_credentials(authority, key, certificate)

    def problem(self, address: str) -> str:
        """Connects to HOST:PORT. Returns why a certificate is rejected, or ""."""
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        try:
            context = ssl.create_default_context(cafile=self._ca)
            context.load_cert_chain(self._certificate, self._key, password="")
            context.set_alpn_protocols(["h2"])
            with socket.create_connection((host, int(port)), timeout=_TIMEOUT) as connection:
                with context.wrap_socket(connection, server_hostname=host) as stream:
                    stream.read(1)  # With TLS 1.3, the agent verifies the client after the handshake.
            return ""
        except ssl.SSLCertVerificationError as error:
            return f"the agent's certificate is rejected: {error.verify_message}"
        except ssl.SSLError as error:
            alert = re.search(r"ALERT_(\w+)", error.reason or "")
            return _ALERTS.get(alert[1], "") if alert else ""
        except (OSError, ValueError):
            return ""
