#include "api/kube/http/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <optional>
#include <vector>

#include "tests/hostile/frames.h"
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

using Reader = std::function<bool(const HttpResponse&, std::string_view)>;

class TestTransfer : public HttpTransfer {
 public:
  TestTransfer(HttpClient& client, Reader reader)
      : HttpTransfer(client), reader_(std::move(reader)) {}

  absl::StatusOr<HttpResponse> result = absl::CancelledError("no result");

 private:
  bool OnBody(const HttpResponse& response, std::string_view piece) override {
    return reader_(response, piece);
  }
  void OnEnd(const absl::StatusOr<HttpResponse>& response) override { result = response; }

  const Reader reader_;
};

// Sends a request and waits until it has ended or the client was stopped.
absl::StatusOr<HttpResponse> Get(HttpClient& client, const HttpRequest& request, Reader reader) {
  TestTransfer transfer(client, std::move(reader));
  transfer.Send(request);
  while (transfer.busy() && client.Run(HttpClient::Clock::time_point::max())) {
  }
  return transfer.result;
}

Answered GetAll(HttpClient& client, HttpRequest request = {}) {
  if (request.path.empty()) request.path = "/version";
  Answered answered;
  const auto response = Get(client, request, [&](const HttpResponse& its, std::string_view piece) {
    EXPECT_GT(its.status, 0);
    answered.body += piece;
    return true;
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
             const std::string& names = "IP:127.0.0.1", bool http2 = false) {
    server_.emplace(ca_.Issue("server", names), client_ca, std::move(serve), http2);
    api_.url = *ParseServerUrl(server_->url());
    if (api_.tls_files.ca.empty()) api_.tls_text.ca = ca_.certificate();
  }

  std::unique_ptr<HttpClient> Client() {
    return std::make_unique<HttpClient>(api_, "svcmap-kube/test");
  }

  void ShowClientCertificate(const std::string& name) {
    const KeyPair pair = ca_.Issue(name, "");
    api_.tls_files.certificate = File("client.crt");
    api_.tls_files.key = File("client.key");
    ReplaceFile(api_.tls_files.certificate, pair.certificate);
    ReplaceFile(api_.tls_files.key, pair.key);
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

TEST_F(HttpClientTest, ARequestCanHaveABody) {
  std::vector<std::string> bodies;
  Serve([&](TlsConnection& connection) {
    for (const size_t size : {2, 0, 7}) {
      connection.ReadRequest();
      bodies.push_back(size == 0 ? "" : connection.Read(size));
      connection.Answer("200 OK", "ok");
    }
  });
  const auto client = Client();
  TestTransfer transfer(*client, [](const auto&, auto) { return true; });
  const auto send = [&](HttpRequest request) {
    request.path = "/object";
    transfer.Send(request);
    while (transfer.busy() && client->Run(HttpClient::Clock::time_point::max())) {
    }
    EXPECT_OK(transfer.result);
    return server_->requests().back();
  };
  EXPECT_THAT(send({.method = "PATCH", .content_type = "a/patch", .body = "[]"}),
              AllOf(StartsWith("PATCH /object HTTP/1.1\r\n"),
                    HasSubstr("Content-Type: a/patch\r\n"), HasSubstr("Content-Length: 2\r\n")));
  EXPECT_THAT(send({}), AllOf(StartsWith("GET /object HTTP/1.1\r\n"), Not(HasSubstr("Content-"))));
  EXPECT_THAT(send({.method = "POST", .content_type = "a/b", .body = std::string("\0binary", 7)}),
              StartsWith("POST /object HTTP/1.1\r\n"));
  EXPECT_EQ(server_->clients().size(), 1u);
  EXPECT_THAT(bodies, ElementsAre("[]", "", std::string("\0binary", 7)));
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
  const auto client = Client();
  const auto response = Get(*client, {.path = "/"}, [&](const HttpResponse& its, auto piece) {
    EXPECT_EQ(its.status, 200);
    if (pieces.empty()) seen.set_value();
    pieces.emplace_back(piece);
    return true;
  });
  EXPECT_OK(response);
  EXPECT_THAT(pieces, ElementsAre("first", "second"));
}

TEST_F(HttpClientTest, TheReaderCanCancelTheRequest) {
  Serve(AnswerAll);
  const auto client = Client();
  const auto response = Get(*client, {.path = "/"}, [](const auto&, auto) { return false; });
  EXPECT_EQ(response.status(), absl::CancelledError("no result"));
  EXPECT_EQ(GetAll(*client).body, "ok");
}

TEST_F(HttpClientTest, AServerOfAnotherAuthorityIsNotTrusted) {
  Serve(AnswerAll);
  api_.tls_text.ca.clear();
  api_.tls_files.ca = File("ca.crt");
  ReplaceFile(api_.tls_files.ca, CertificateAuthority("other").certificate());
  const auto client = Client();
  const absl::Status status = GetAll(*client).status;
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_THAT(
      std::string(status.message()),
      StartsWith(server_->url() + ": server certificate is not signed by certificate-authority " +
                 api_.tls_files.ca + ": unable to get local issuer certificate"));
  ReplaceFile(api_.tls_files.ca, ca_.certificate());
  EXPECT_EQ(GetAll(*client).body, "ok");

  api_.tls_files.ca = File("absent.crt");
  EXPECT_THAT(std::string(GetAll(*Client()).status.message()),
              AllOf(HasSubstr("absent.crt"), HasSubstr("No such file")));
  api_.tls_files.ca.clear();
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
  ReplaceFile(api_.tls_files.key, second.key);
  EXPECT_EQ(GetAll(*client).body, "ok");
  EXPECT_THAT(server_->clients(), ElementsAre("first"));

  ReplaceFile(api_.tls_files.certificate, second.certificate);
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
              AllOf(HasSubstr("unknown CA"), HasSubstr(api_.tls_files.certificate)));
}

TEST_F(HttpClientTest, TheTokenFileIsReadForEachRequest) {
  api_.token_file = File("token");
  Serve(AnswerAll);
  const auto client = Client();
  const absl::Status status = GetAll(*client).status;
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(api_.token_file));

  ReplaceFile(api_.token_file, kOldToken);
  EXPECT_OK(GetAll(*client).status);
  ReplaceFile(api_.token_file, std::string(kNewToken) + "\n");
  EXPECT_OK(GetAll(*client).status);
  ReplaceFile(api_.token_file, "two words");
  EXPECT_OK(GetAll(*client).status) << "the previous token may still be valid";
  EXPECT_THAT(server_->requests(),
              ElementsAre(HasSubstr(kOldToken), HasSubstr(kNewToken), HasSubstr(kNewToken)));
}

TEST_F(HttpClientTest, AfterA401TheErrorNamesTheFileThatCannotBeRead) {
  api_.token_file = File("token");
  ReplaceFile(api_.token_file, kOldToken);
  Serve([](TlsConnection& connection) {
    while (!connection.ReadRequest().empty()) connection.Answer("401 Unauthorized", "{}");
  });
  const auto client = Client();
  EXPECT_EQ(GetAll(*client).response.status, 401);
  std::filesystem::remove(api_.token_file);
  const absl::Status status = GetAll(*client).status;
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(StartsWith(server_->url() + ": API server returned 401; in addition, "),
                    HasSubstr(api_.token_file), HasSubstr("No such file")));
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

// A connection with HTTP/2 frames. The first request on a connection is stream 1, the second 3.
class Http2ClientTest : public HttpClientTest {
 protected:
  using Clock = HttpClient::Clock;

  // Calls `answer` with the number of the connection, from 1, and the stream of each request.
  void ServeStreams(std::function<void(TlsConnection&, size_t, uint32_t)> answer) {
    Serve(
        [this, answer](TlsConnection& connection) {
          const size_t number = server_->clients().size();
          connection.Write(hostile::Frame(hostile::kSettings, 0, 0));
          connection.Read(hostile::kPreface.size());
          while (true) {
            const std::string head = connection.Read(9);
            if (head.empty()) return;
            const auto byte = [&](size_t at) { return static_cast<uint8_t>(head[at]); };
            connection.Read(byte(0) << 16 | byte(1) << 8 | byte(2));
            if (byte(3) == hostile::kHeaders) answer(connection, number, byte(8));
          }
        },
        "", "IP:127.0.0.1", true);
  }
  static void BeginAnswer(TlsConnection& connection, uint32_t stream) {
    connection.Write(hostile::Frame(hostile::kHeaders, hostile::kEndHeaders, stream, "\x88"));
  }
  static void Continue(TlsConnection& connection, uint32_t stream, uint8_t flags = 0) {
    connection.Write(hostile::Frame(hostile::kData, flags, stream, "ok"));
  }

  // Starts a request that counts the pieces of the body.
  std::unique_ptr<TestTransfer> Start(HttpClient& client, const HttpRequest& request, int& pieces) {
    auto transfer = std::make_unique<TestTransfer>(client, [&](const auto&, auto) {
      ++pieces;
      return true;
    });
    transfer->Send(request);
    return transfer;
  }
  static void RunUntil(HttpClient& client, const std::function<bool()>& condition) {
    ASSERT_TRUE(testing::WaitUntil([&] {
      client.Run(Clock::now() + 10ms);
      return condition();
    }));
  }
};

// The second request receives nothing, so the client ends the connection for both requests.
TEST_F(Http2ClientTest, AConnectionWithoutDataEndsForAllRequests) {
  ServeStreams([](TlsConnection& connection, size_t number, uint32_t stream) {
    if (number == 1 && stream == 3) return;
    BeginAnswer(connection, stream);
    Continue(connection, stream, number == 1 ? 0 : hostile::kEndStream);
  });
  const auto client = Client();
  int pieces = 0;
  const auto watch = Start(*client, {.path = "/"}, pieces);
  RunUntil(*client, [&] { return pieces == 1; });
  const auto silent = Start(*client, {.path = "/", .first_byte_timeout = 50ms}, pieces);
  RunUntil(*client, [&] { return !silent->busy(); });
  EXPECT_EQ(silent->result.status(),
            absl::DeadlineExceededError(server_->url() + ": no response within 0.05 s"));
  EXPECT_FALSE(watch->busy());
  EXPECT_EQ(watch->result.status(),
            absl::UnavailableError(server_->url() +
                                   ": connection lost: Failure when receiving data from the peer: "
                                   "another request has failed"));
  EXPECT_EQ(server_->clients().size(), 1u);

  watch->Send({.path = "/"});
  silent->Send({.path = "/"});
  RunUntil(*client, [&] { return !watch->busy() && !silent->busy(); });
  EXPECT_OK(watch->result);
  EXPECT_OK(silent->result);
  EXPECT_EQ(server_->clients().size(), 2u) << "both share the new connection";
}

// The watch receives data after the silent request, so only the silent request moves to another
// connection.
TEST_F(Http2ClientTest, ASilentRequestDoesNotEndARequestThatReceivesData) {
  constexpr uint32_t kWatch = 1;
  constexpr uint32_t kSilent = 3;
  ServeStreams([](TlsConnection& connection, size_t, uint32_t stream) {
    BeginAnswer(connection, stream);
    Continue(connection, stream);
    if (stream > kSilent) Continue(connection, kWatch);
  });
  const auto client = Client();
  int watched = 0, silent = 0, others = 0;
  size_t connections = 0;
  // Make several attempts, because the silent request can time out too early on slow machines.
  ASSERT_TRUE(testing::WaitUntil([&] {
    watched = silent = others = 0;
    const auto watch = Start(*client, {.path = "/"}, watched);
    RunUntil(*client, [&] { return watched == 1; });
    const auto mute = Start(*client, {.path = "/", .silence_timeout = 300ms}, silent);
    RunUntil(*client, [&] { return silent == 1; });
    const auto other = Start(*client, {.path = "/"}, others);
    RunUntil(*client, [&] { return (watched == 2 && others == 1) || !watch->busy(); });
    RunUntil(*client, [&] { return !mute->busy(); });
    EXPECT_EQ(mute->result.status(),
              absl::DeadlineExceededError(server_->url() + ": no data for 0.3 s"));
    if (!watch->busy()) return false;
    connections = server_->clients().size();
    mute->Send({.path = "/"});
    RunUntil(*client, [&] { return silent == 2; });
    return watch->busy();
  }));
  EXPECT_EQ(server_->clients().size(), connections + 1);
}

// API servers reset the stream of a list that takes longer than --request-timeout.
TEST_F(Http2ClientTest, AResetStreamDoesNotEndOtherRequests) {
  constexpr uint32_t kInternalError = 2;
  ServeStreams([](TlsConnection& connection, size_t number, uint32_t stream) {
    BeginAnswer(connection, stream);
    Continue(connection, stream);
    if (number == 1 && stream > 1) {
      connection.Write(
          hostile::Frame(hostile::kRstStream, 0, stream, hostile::Number32(kInternalError)));
    }
  });
  const auto client = Client();
  int watched = 0, listed = 0;
  const auto watch = Start(*client, {.path = "/"}, watched);
  RunUntil(*client, [&] { return watched == 1; });
  const auto list = Start(*client, {.path = "/"}, listed);
  RunUntil(*client, [&] { return !list->busy(); });
  EXPECT_TRUE(absl::IsUnavailable(list->result.status())) << list->result.status();
  EXPECT_TRUE(watch->busy());

  listed = 0;
  list->Send({.path = "/"});
  RunUntil(*client, [&] { return listed == 1; });
  EXPECT_TRUE(watch->busy());
  EXPECT_EQ(server_->clients().size(), 2u);
}

// Without TLS, there is no HTTP/2.
TEST_F(Http2ClientTest, WithoutTlsNoRequestWaitsForAnother) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address = {.sin_family = AF_INET};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 8), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  api_.url = *ParseServerUrl("http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
  const auto client = Client();
  int pieces = 0;
  std::vector<std::unique_ptr<TestTransfer>> transfers;
  for (int i = 0; i < 4; ++i) transfers.push_back(Start(*client, {.path = "/"}, pieces));
  std::vector<int> connections;
  RunUntil(*client, [&] {
    const int fd = accept(listener, nullptr, nullptr);
    if (fd >= 0) connections.push_back(fd);
    return connections.size() == 4;
  });
  for (const int fd : connections) close(fd);
  close(listener);
}

// Some of the requests open another connection after the alert, because libcurl repeats them.
TEST_F(Http2ClientTest, EachRequestReportsTheAlert) {
  Serve([](TlsConnection&) {}, CertificateAuthority("clients").certificate(), "IP:127.0.0.1", true);
  const auto client = Client();
  int pieces = 0;
  std::vector<std::unique_ptr<TestTransfer>> transfers;
  for (int i = 0; i < 4; ++i) transfers.push_back(Start(*client, {.path = "/"}, pieces));
  for (const auto& transfer : transfers) {
    RunUntil(*client, [&] { return !transfer->busy(); });
    const absl::Status status = transfer->result.status();
    EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("no client certificate is configured"));
  }
}

TEST_F(HttpClientTest, BrokenConnectionsAreUnavailable) {
  Serve([&](TlsConnection& connection) {
    const std::string request = connection.ReadRequest();
    if (request.starts_with("GET /cut")) {
      connection.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal");
    } else if (request.starts_with("GET /long")) {
      connection.Write("HTTP/1.1 200 OK\r\n");
      while (connection.Write("X: " + std::string(4000, 'x') + "\r\n")) {
      }
    }
  });
  const auto client = Client();
  const Answered cut = GetAll(*client, {.path = "/cut"});
  EXPECT_TRUE(absl::IsUnavailable(cut.status)) << cut.status;
  EXPECT_EQ(cut.body, "hal");
  EXPECT_TRUE(absl::IsUnavailable(GetAll(*client, {.path = "/nothing"}).status));
  const absl::Status status = GetAll(*client, {.path = "/long"}).status;
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("Too large response headers"));

  const std::string url = "https://127.0.0.1:" + std::to_string(testing::FreeTcpPort());
  api_.url = *ParseServerUrl(url);
  const absl::Status rejected = GetAll(*Client()).status;
  EXPECT_EQ(rejected, absl::UnavailableError(url + ": connection failed: Connection refused"));
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
  api_.proxy =
      *ParseProxyUrl("http://me:password-that-is-secret@127.0.0.1:" + std::to_string(port));
  const absl::Status status = GetAll(*Client()).status;
  EXPECT_EQ(status, absl::UnavailableError(server_->url() +
                                           " (proxy http://127.0.0.1:" + std::to_string(port) +
                                           "): connection failed: Connection refused"));
  for (const char* name : {"HTTPS_PROXY", "https_proxy", "NO_PROXY"}) unsetenv(name);
}

TEST(ServerUrlTest, HttpWithoutTlsIsForThisMachine) {
  for (const char* url : {"http://10.0.0.1:8080", "127.0.0.1:8080", "https://me:x@10.0.0.1",
                          "ftp://10.0.0.1", "https://10.0.0.1/?a=b", ""}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseServerUrl(url).status())) << url;
  }
  for (const char* url : {"http://127.0.0.1:8080", "http://[::1]:8080/", "http://localhost",
                          "https://[fd00::1]:6443", "https://rancher.example/k8s/clusters/c-1"}) {
    EXPECT_OK(ParseServerUrl(url)) << url;
  }
}

}  // namespace
}  // namespace svcmap::kube::test
