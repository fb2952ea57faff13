// A TLS server on 127.0.0.1 with scripted responses. A separate thread handles each connection. The
// server's destructor waits for all threads.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/certificates.h"

namespace svcmap::kube::test {

// A connection with blocking calls for the test's handler. The handler runs in a separate thread
// for each connection.
class TlsConnection {
 public:
  TlsConnection(SSL* ssl, std::function<void(const std::string&)> on_request)
      : ssl_(ssl), on_request_(std::move(on_request)) {}

  // Reads a request up to the empty line after the headers. Returns "" if the client closed the
  // connection.
  std::string ReadRequest() {
    std::string text;
    char byte;
    while (!text.ends_with("\r\n\r\n")) {
      if (SSL_read(ssl_, &byte, 1) != 1) return "";
      text += byte;
    }
    on_request_(text);
    return text;
  }

  // Reads exactly `size` bytes. Returns "" if the client closed the connection.
  std::string Read(size_t size) {
    std::string text(size, '\0');
    for (size_t done = 0; done < size;) {
      const int bytes = SSL_read(ssl_, text.data() + done, static_cast<int>(size - done));
      if (bytes <= 0) return "";
      done += static_cast<size_t>(bytes);
    }
    return text;
  }

  // Writes text to the client. Returns false after the client has closed the connection.
  bool Write(std::string_view text) {
    return SSL_write(ssl_, text.data(), static_cast<int>(text.size())) > 0;
  }
  void Close() { shutdown(SSL_get_fd(ssl_), SHUT_RDWR); }
  // Writes a complete response. Each line of `headers` ends with "\r\n".
  void Answer(const std::string& status, const std::string& body, const std::string& headers = "") {
    Write("HTTP/1.1 " + status + "\r\n" + headers +
          "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }

  std::string server_name() const {
    const char* name = SSL_get_servername(ssl_, TLSEXT_NAMETYPE_host_name);
    return name == nullptr ? "" : name;
  }
  // Returns the common name of the client certificate, or "" if the client sent no certificate.
  std::string client_name() const {
    X509* certificate = SSL_get1_peer_certificate(ssl_);
    if (certificate == nullptr) return "";
    char name[64] = {};
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name,
                              sizeof(name));
    X509_free(certificate);
    return name;
  }

 private:
  SSL* ssl_;
  std::function<void(const std::string&)> on_request_;
};

class TlsServer {
 public:
  using Serve = std::function<void(TlsConnection&)>;

  // `client_ca` must have signed the client certificates. If `client_ca` is empty, the server does
  // not request client certificates. If `http2` is true, ALPN selects HTTP/2, and the handler reads
  // and writes the frames.
  TlsServer(const testing::KeyPair& identity, const std::string& client_ca, Serve serve,
            bool http2 = false)
      : serve_(std::move(serve)), context_(SSL_CTX_new(TLS_server_method())) {
    testing::UsePair(context_, identity);
    if (http2) SSL_CTX_set_alpn_select_cb(context_, ChooseHttp2, nullptr);
    if (!client_ca.empty()) RequireClients(client_ca);
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    listen(listener_, 8);
    socklen_t size = sizeof(address);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { Accept(); });
  }

  ~TlsServer() {
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int fd : open_) shutdown(fd, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
    close(listener_);
    SSL_CTX_free(context_);
  }

  std::string url() const { return "https://127.0.0.1:" + std::to_string(port_); }
  uint16_t port() const { return port_; }

  // clients() returns the client names, and called() the server names, of all connections with a
  // completed TLS handshake.
  std::vector<std::string> clients() const { return Locked(clients_); }
  std::vector<std::string> called() const { return Locked(called_); }
  // Returns the requests of all connections in order.
  std::vector<std::string> requests() const { return Locked(requests_); }

 private:
  std::vector<std::string> Locked(const std::vector<std::string>& list) const {
    const std::lock_guard lock(mutex_);
    return list;
  }

  static int ChooseHttp2(SSL*, const unsigned char** chosen, unsigned char* size,
                         const unsigned char* offered, unsigned int offered_size, void*) {
    static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
    const int found = SSL_select_next_proto(const_cast<unsigned char**>(chosen), size, kHttp2,
                                            sizeof(kHttp2), offered, offered_size);
    return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
  }

  void RequireClients(const std::string& client_ca) {
    BIO* bio = BIO_new_mem_buf(client_ca.data(), -1);
    X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context_), certificate);
    X509_free(certificate);
    SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    SSL_CTX_set_session_id_context(context_, reinterpret_cast<const unsigned char*>("test"), 4);
  }

  void Accept() {
    while (true) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      const std::lock_guard lock(mutex_);
      open_.push_back(fd);
      threads_.emplace_back([this, fd] { Handle(fd); });
    }
  }

  void Handle(int fd) {
    // OpenSSL may write to closed connections, so this thread blocks SIGPIPE. The client under test
    // must handle SIGPIPE itself.
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);

    SSL* ssl = SSL_new(context_);
    SSL_set_fd(ssl, fd);
    if (SSL_accept(ssl) == 1) {
      TlsConnection connection(ssl, [this](const std::string& request) {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
      });
      {
        const std::lock_guard lock(mutex_);
        clients_.push_back(connection.client_name());
        called_.push_back(connection.server_name());
      }
      serve_(connection);
    } else {
      // Shut down the connection before closing the socket, because closing a socket with unread
      // data would discard the TLS alert.
      shutdown(fd, SHUT_WR);
      for (char bytes[512]; read(fd, bytes, sizeof(bytes)) > 0;) {
      }
    }
    SSL_free(ssl);
    const std::lock_guard lock(mutex_);
    std::erase(open_, fd);
    close(fd);
  }

  const Serve serve_;
  SSL_CTX* const context_;
  int listener_ = -1;
  uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<int> open_;
  std::vector<std::string> clients_;
  std::vector<std::string> called_;
  std::vector<std::string> requests_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;  // The thread must be the last member, because it uses the other members.
};

}  // namespace svcmap::kube::test
