#include "api/kube/http/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <vector>

#include "api/kube/http/bearer_token.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wait.h"
#include "tests/unit/kube/tls_server.h"

namespace svcmap::kube::test {
namespace {

using ::testing::AllOf;
using testing::CertificateAuthority;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::KeyPair;
using ::testing::Not;
using ::testing::StartsWith;
using testing::TemporaryFolder;
using namespace std::chrono_literals;

constexpr char kOldToken[] = "old-token-that-is-secret";
constexpr char kNewToken[] = "new-token-that-is-secret";
constexpr char kPassword[] = "password-that-is-secret";

void ReplaceFile(const std::string& path, const std::string& text) {
  std::ofstream(path + ".new") << text;
  std::filesystem::rename(path + ".new", path);
}

struct Answered {
  absl::Status status;
  HttpResponse response;
  std::string body;
};

Answered GetAll(HttpClient& client, HttpRequest request = {}) {
  if (request.path.empty()) request.path = "/version";
  Answered answered;
  const auto response = client.Get(request, [&](const HttpResponse& its, std::string_view piece) {
    EXPECT_GT(its.status, 0);
    answered.body += piece;
    return absl::OkStatus();
  });
  answered.status = response.status();
  if (response.ok()) answered.response = *response;
  const std::string message(answered.status.message());
  EXPECT_THAT(message, Not(HasSubstr("that-is-secret")));
  EXPECT_THAT(message, Not(HasSubstr("PRIVATE KEY")));
  return answered;
}

void AnswerEach(TlsConnection& connection, const std::string& body = "ok") {
  while (!connection.ReadRequest().empty()) connection.Answer("200 OK", body);
}
void AnswerAll(TlsConnection& connection) { AnswerEach(connection); }

class HttpClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = TemporaryFolder::Make();
    ASSERT_OK(made);
    folder_.emplace(*std::move(made));
  }

  std::string File(const std::string& name) const { return folder_->path() + "/" + name; }

  void Serve(TlsServer::Serve serve, const std::string& client_ca = "",
             const std::string& names = "IP:127.0.0.1") {
    server_.emplace(ca_.Issue("server", names), client_ca, std::move(serve));
    api_.url = server_->url();
    if (api_.ca_file.empty()) api_.ca_pem = ca_.certificate();
  }

  std::unique_ptr<HttpClient> Client() {
    auto client = HttpClient::Create(api_, "svcmap-kube/test");
    EXPECT_OK(client);
    return client.ok() ? *std::move(client) : nullptr;
  }

  void ShowClientCertificate(const std::string& name) {
    const KeyPair pair = ca_.Issue(name, "");
    api_.client_certificate_file = File("client.crt");
    api_.client_key_file = File("client.key");
    ReplaceFile(api_.client_certificate_file, pair.certificate);
    ReplaceFile(api_.client_key_file, pair.key);
  }

  CertificateAuthority ca_{"cluster"};
  std::optional<TemporaryFolder> folder_;
  ApiServer api_;
  std::optional<TlsServer> server_;
};

TEST_F(HttpClientTest, OneConnectionServesManyRequests) {
  Serve([](TlsConnection& connection) {
    connection.ReadRequest();
    connection.Answer("429 Too Many Requests", "{}",
                      "Content-Type: application/json\r\nRetry-After: 7\r\n");
    AnswerAll(connection);
  });
  api_.username = "svcmap";
  api_.password = kPassword;
  const auto client = Client();
  const Answered limited =
      GetAll(*client, {.path = "/api/v1/services?watch=1", .accept = "a/b, c/d"});
  EXPECT_OK(limited.status);
  EXPECT_EQ(limited.response.status, 429);
  EXPECT_EQ(limited.response.content_type, "application/json");
  EXPECT_EQ(limited.response.retry_after, 7s);
  EXPECT_EQ(limited.body, "{}");
  EXPECT_EQ(GetAll(*client).body, "ok");
  EXPECT_EQ(server_->clients().size(), 1u);
  const std::string first = server_->requests().at(0);
  EXPECT_THAT(first, StartsWith("GET /api/v1/services?watch=1 HTTP/1.1\r\n"));
  EXPECT_THAT(first, HasSubstr("\r\nAccept: a/b, c/d\r\n"));
  EXPECT_THAT(first, HasSubstr("\r\nUser-Agent: svcmap-kube/test\r\n"));
  EXPECT_THAT(first, HasSubstr("\r\nAuthorization: Basic c3ZjbWFwOnBhc3N3b3JkLXRoYXQtaXMtc2Vjc"));
}

TEST_F(HttpClientTest, TheBodyArrivesInPiecesBeforeItEnds) {
  std::promise<void> seen;
  Serve([&](TlsConnection& connection) {
    connection.ReadRequest();
    connection.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
    seen.get_future().wait();
    connection.Write("6\r\nsecond\r\n0\r\n\r\n");
  });
  std::vector<std::string> pieces;
  const auto response = Client()->Get({.path = "/"}, [&](const HttpResponse& its, auto piece) {
    EXPECT_EQ(its.status, 200);
    if (pieces.empty()) seen.set_value();
    pieces.emplace_back(piece);
    return absl::OkStatus();
  });
  EXPECT_OK(response);
  EXPECT_THAT(pieces, ElementsAre("first", "second"));
}

TEST_F(HttpClientTest, AnErrorOfTheReaderEndsTheRequestAndIsReturned) {
  Serve(AnswerAll);
  const auto client = Client();
  const auto response = client->Get({.path = "/"}, [](const HttpResponse&, std::string_view) {
    return absl::DataLossError("not protobuf");
  });
  EXPECT_EQ(response.status(), absl::DataLossError("not protobuf"));
  EXPECT_EQ(GetAll(*client).body, "ok");
}

// Returns `size` zero bytes in gzip format, about a thousandth of the size.
std::string CompressedZeros(size_t size) {
  z_stream stream = {};
  EXPECT_EQ(
      deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY),
      Z_OK);
  const std::vector<char> zeros(size_t{1} << 20);
  std::vector<char> chunk(size_t{1} << 20);
  std::string out;
  for (size_t done = 0; done < size; done += zeros.size()) {
    const bool last = done + zeros.size() >= size;
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(zeros.data()));
    stream.avail_in = static_cast<uInt>(zeros.size());
    do {
      stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
      stream.avail_out = static_cast<uInt>(chunk.size());
      deflate(&stream, last ? Z_FINISH : Z_NO_FLUSH);
      out.append(chunk.data(), chunk.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  }
  deflateEnd(&stream);
  return out;
}

// The limits for responses apply to decompressed data, and the client does not decompress more data
// than the reader accepts.
TEST_F(HttpClientTest, CompressedDataIsDecompressedInPieces) {
  constexpr size_t kSize = size_t{64} << 20;
  constexpr size_t kLimit = size_t{16} << 20;
  const std::string bomb = CompressedZeros(kSize);
  EXPECT_LT(bomb.size(), kSize / 500);
  Serve([&bomb](TlsConnection& connection) {
    while (!connection.ReadRequest().empty()) {
      connection.Answer("200 OK", bomb, "Content-Encoding: gzip\r\n");
    }
  });
  size_t read = 0;
  size_t longest = 0;
  const auto response = Client()->Get(
      {.path = "/version"}, [&](const HttpResponse&, std::string_view piece) -> absl::Status {
        EXPECT_EQ(piece.find_first_not_of('\0'), std::string_view::npos);
        read += piece.size();
        longest = std::max(longest, piece.size());
        return read <= kLimit ? absl::OkStatus() : absl::ResourceExhaustedError("too large");
      });
  EXPECT_EQ(response.status(), absl::ResourceExhaustedError("too large"));
  EXPECT_LE(longest, size_t{64} << 10);
  EXPECT_LE(read, kLimit + longest);
}

TEST_F(HttpClientTest, AServerOfAnotherAuthorityIsNotTrusted) {
  Serve(AnswerAll);
  api_.ca_pem.clear();
  api_.ca_file = File("ca.crt");
  ReplaceFile(api_.ca_file, CertificateAuthority("other").certificate());
  const auto client = Client();
  const absl::Status status = GetAll(*client).status;
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_THAT(
      std::string(status.message()),
      StartsWith(server_->url() + ": server certificate is not signed by certificate-authority " +
                 api_.ca_file + ": unable to get local issuer certificate"));
  ReplaceFile(api_.ca_file, ca_.certificate());
  EXPECT_EQ(GetAll(*client).body, "ok");

  api_.ca_file = File("absent.crt");
  EXPECT_THAT(std::string(GetAll(*Client()).status.message()),
              AllOf(HasSubstr("absent.crt"), HasSubstr("No such file")));
  api_.ca_file.clear();
  api_.insecure_skip_tls_verify = true;
  EXPECT_EQ(GetAll(*Client()).body, "ok");
}

TEST_F(HttpClientTest, TheNameInTheCertificateIsTheHostOrTlsServerName) {
  Serve(AnswerAll, "", "DNS:kubernetes.default");
  const absl::Status status = GetAll(*Client()).status;
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("server certificate is not valid for 127.0.0.1"));
  api_.tls_server_name = "kubernetes.default";
  EXPECT_EQ(GetAll(*Client()).body, "ok");
  EXPECT_THAT(server_->called(), Contains("kubernetes.default"));
  EXPECT_THAT(server_->requests().at(0),
              HasSubstr("\r\nHost: " + server_->url().substr(8) + "\r\n"));
}

TEST_F(HttpClientTest, RotatedClientCertificatesAreForTheNextRequest) {
  Serve(AnswerAll, ca_.certificate());
  ShowClientCertificate("first");
  const auto client = Client();
  EXPECT_EQ(GetAll(*client).body, "ok");

  // The new key does not match the old certificate, so the client keeps its previous certificate
  // and key.
  const KeyPair second = ca_.Issue("second", "");
  ReplaceFile(api_.client_key_file, second.key);
  EXPECT_EQ(GetAll(*client).body, "ok");
  EXPECT_THAT(server_->clients(), ElementsAre("first"));

  ReplaceFile(api_.client_certificate_file, second.certificate);
  EXPECT_EQ(GetAll(*client).body, "ok");
  EXPECT_EQ(GetAll(*client).body, "ok");
  EXPECT_THAT(server_->clients(), ElementsAre("first", "second"));
}

TEST_F(HttpClientTest, AServerThatDoesNotTrustUsReportsIt) {
  Serve(AnswerAll, CertificateAuthority("clients").certificate());
  absl::Status status = GetAll(*Client()).status;
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(StartsWith(server_->url()), HasSubstr("no client certificate is configured")));
  ShowClientCertificate("first");
  status = GetAll(*Client()).status;
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("unknown CA"), HasSubstr(api_.client_certificate_file)));
}

TEST_F(HttpClientTest, ATokenThatIsRejectedIsReadAgainOnce) {
  api_.token_file = File("token");
  Serve([&](TlsConnection& connection) {
    while (!connection.ReadRequest().empty()) {
      const size_t count = server_->requests().size();
      if (count == 2) ReplaceFile(api_.token_file, std::string(kNewToken) + "\n");
      if (count <= 2) {
        connection.Answer("401 Unauthorized", "no");
      } else {
        connection.Answer("200 OK", "ok");
      }
    }
  });
  const auto client = Client();
  absl::Status status = GetAll(*client).status;
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(api_.token_file));

  ReplaceFile(api_.token_file, kOldToken);
  const Answered same = GetAll(*client);
  EXPECT_EQ(same.response.status, 401);
  EXPECT_EQ(same.body, "no");
  const Answered renewed = GetAll(*client);
  EXPECT_EQ(renewed.response.status, 200);
  EXPECT_EQ(renewed.body, "ok");
  EXPECT_THAT(server_->requests(),
              ElementsAre(HasSubstr(kOldToken), HasSubstr(kOldToken), HasSubstr(kNewToken)));
}

TEST_F(HttpClientTest, ATokenIsReadAgainWhenItIsAMinuteOld) {
  const std::string path = File("token");
  BearerToken token("", path);
  const BearerToken::Time start{};
  EXPECT_FALSE(token.Refresh(start).ok());
  ReplaceFile(path, kOldToken);
  EXPECT_OK(token.Refresh(start));
  ReplaceFile(path, kNewToken);
  EXPECT_OK(token.Refresh(start + 59s));
  EXPECT_EQ(token.text(), kOldToken);
  EXPECT_OK(token.Refresh(start + 60s));
  EXPECT_EQ(token.text(), kNewToken);
  ReplaceFile(path, "two words");
  EXPECT_OK(token.Refresh(start + 120s)) << "the old one may still be good";
  EXPECT_EQ(token.text(), kNewToken);
}

TEST_F(HttpClientTest, StopEndsARequestThatHangs) {
  std::promise<void> asked;
  Serve([&](TlsConnection& connection) {
    connection.ReadRequest();
    connection.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    asked.set_value();
    connection.ReadRequest();
  });
  const auto client = Client();
  std::thread stopper([&] {
    asked.get_future().wait();
    client->Stop();
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(absl::IsCancelled(GetAll(*client).status));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s) << "not the timeout";
  stopper.join();
  EXPECT_TRUE(absl::IsCancelled(GetAll(*client).status)) << "and all later ones";
}

TEST_F(HttpClientTest, SilenceEndsARequest) {
  Serve([&](TlsConnection& connection) {
    const bool talks = connection.ReadRequest().starts_with("GET /talk");
    if (talks) connection.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n");
    connection.ReadRequest();
  });
  const auto client = Client();
  Answered silent = GetAll(*client, {.path = "/", .first_byte_timeout = 50ms});
  EXPECT_EQ(silent.status,
            absl::DeadlineExceededError(server_->url() + ": no response within 0.05 s"));
  silent = GetAll(*client, {.path = "/talk", .silence_timeout = 50ms});
  EXPECT_EQ(silent.status, absl::DeadlineExceededError(server_->url() + ": no data for 0.05 s"));
  EXPECT_EQ(silent.body, "hi");
}

// With HTTP/2, requests can share a connection. A request must not use a connection on which the
// previous request timed out.
TEST_F(HttpClientTest, AnHttp2ConnectionThatWasSilentIsNotUsedAgain) {
  const auto listen = [](TlsConnection& connection) {
    while (!connection.ReadRequest().empty()) {
    }
  };
  server_.emplace(ca_.Issue("server", "IP:127.0.0.1"), "", listen, true);
  api_.url = server_->url();
  api_.ca_pem = ca_.certificate();
  const auto client = Client();
  // Make several attempts, because a TLS handshake can take longer than the timeout on slow
  // machines.
  EXPECT_TRUE(testing::WaitUntil([&] {
    const absl::Status status = GetAll(*client, {.path = "/", .first_byte_timeout = 50ms}).status;
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    return server_->clients().size() == 2;
  }));
}

TEST_F(HttpClientTest, BrokenConnectionsAreUnavailable) {
  Serve([&](TlsConnection& connection) {
    const std::string request = connection.ReadRequest();
    if (request.starts_with("GET /cut")) {
      connection.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal");
    } else if (request.starts_with("GET /long")) {
      connection.Write("HTTP/1.1 200 OK\r\n");
      for (int i = 0; i < 20; ++i) connection.Write("X: " + std::string(4000, 'x') + "\r\n");
      connection.ReadRequest();
    }
  });
  const auto client = Client();
  const Answered cut = GetAll(*client, {.path = "/cut"});
  EXPECT_TRUE(absl::IsUnavailable(cut.status)) << cut.status;
  EXPECT_EQ(cut.body, "hal");
  EXPECT_TRUE(absl::IsUnavailable(GetAll(*client, {.path = "/nothing"}).status));
  const absl::Status status = GetAll(*client, {.path = "/long"}).status;
  EXPECT_EQ(status,
            absl::UnavailableError(
                server_->url() + ": Too long: the response headers must have at most 65536 bytes"));

  api_.url = "https://127.0.0.1:" + std::to_string(testing::FreeTcpPort());
  const absl::Status rejected = GetAll(*Client()).status;
  EXPECT_EQ(rejected, absl::UnavailableError(api_.url + ": connection failed: Connection refused"));
}

TEST_F(HttpClientTest, AConnectionThatTheServerClosedIsMadeAgain) {
  Serve([](TlsConnection& connection) {
    connection.ReadRequest();
    connection.Answer("200 OK", "ok");
  });
  const auto client = Client();
  EXPECT_EQ(GetAll(*client).body, "ok");
  EXPECT_EQ(GetAll(*client).body, "ok");
  EXPECT_EQ(server_->clients().size(), 2u);
}

TEST_F(HttpClientTest, RedirectsAreNotFollowed) {
  Serve([](TlsConnection& connection) {
    connection.ReadRequest();
    connection.Answer("302 Found", "there", "Location: /elsewhere\r\n");
    AnswerAll(connection);
  });
  api_.token = kOldToken;
  const Answered answered = GetAll(*Client());
  EXPECT_EQ(answered.response.status, 302);
  EXPECT_EQ(answered.body, "there");
}

TEST_F(HttpClientTest, OnlyTheProxyOfTheConfigurationIsUsed) {
  Serve(AnswerAll);
  setenv("HTTPS_PROXY", "http://127.0.0.1:1", 1);
  setenv("https_proxy", "http://127.0.0.1:1", 1);
  setenv("NO_PROXY", "*", 1);
  EXPECT_EQ(GetAll(*Client()).body, "ok");
  const uint16_t port = testing::FreeTcpPort();
  api_.proxy_url = "http://me:password-that-is-secret@127.0.0.1:" + std::to_string(port);
  const absl::Status status = GetAll(*Client()).status;
  EXPECT_EQ(status, absl::UnavailableError(server_->url() +
                                           " (proxy http://127.0.0.1:" + std::to_string(port) +
                                           "): connection failed: Connection refused"));
  for (const char* name : {"HTTPS_PROXY", "https_proxy", "NO_PROXY"}) unsetenv(name);
}

TEST_F(HttpClientTest, HttpWithoutTlsIsForThisMachine) {
  api_.token = kOldToken;
  for (const char* url : {"http://10.0.0.1:8080", "127.0.0.1:8080", "https://me:x@10.0.0.1",
                          "ftp://10.0.0.1", "https://10.0.0.1/?a=b", ""}) {
    api_.url = url;
    EXPECT_TRUE(absl::IsInvalidArgument(HttpClient::Create(api_, "test").status())) << url;
  }
  for (const char* url : {"http://127.0.0.1:8080", "http://[::1]:8080/", "http://localhost",
                          "https://[fd00::1]:6443", "https://rancher.example/k8s/clusters/c-1"}) {
    api_.url = url;
    EXPECT_OK(HttpClient::Create(api_, "test")) << url;
  }
}

}  // namespace
}  // namespace svcmap::kube::test
