// Tests of TCP listeners with TLS: authentication, authorization, and reloading of certificate
// files.
#include <gmock/gmock.h>
#include <openssl/ssl.h>

#include <chrono>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "api/tls/tls_files.h"
#include "tests/grpc/any_call.h"
#include "tests/grpc/tls_fixture.h"
#include "tests/support/wait.h"

namespace svcmap::api {
namespace {

using svcmap::testing::CallAny;
using svcmap::testing::ExpectReadsOnly;
using svcmap::testing::KeyPair;
using svcmap::testing::TlsProbed;
using svcmap::testing::WaitUntil;
using ::testing::HasSubstr;

// OpenSSL's name for the alert that the client receives.
constexpr char kUnknownCa[] = "tlsv1 alert unknown ca";

std::vector<std::string> MethodsOfControl() {
  const auto* service = v1::GetStatusRequest::descriptor()->file()->FindServiceByName("Control");
  std::vector<std::string> methods;
  for (int i = 0; i < service->method_count(); ++i) methods.push_back(service->method(i)->name());
  return methods;
}

TEST_F(TlsTest, EveryMethodHasItsRoleOnPurpose) {
  EXPECT_THAT(MethodsOfControl(),
              ::testing::ElementsAre("Push", "Apply", "Remove", "AcceptSnapshot", "List",
                                     "GetStatus", "Dump", "Explain", "Watch"))
      << "who may call the new one? See NeededRole";
}

TEST_F(TlsTest, WriterIsRejectedNothing) {
  Listen();
  const auto channel = ChannelOf(writer_);
  for (const std::string& method : MethodsOfControl()) {
    const grpc::Status status = CallAny(channel, "/svcmap.v1.Control/" + method);
    EXPECT_NE(status.error_code(), grpc::PERMISSION_DENIED) << method;
    EXPECT_NE(status.error_code(), grpc::UNIMPLEMENTED) << method;
    EXPECT_NE(status.error_code(), grpc::UNAVAILABLE) << method << status.error_message();
  }
  EXPECT_EQ(GetStatus().refused_calls(), 0u);
}

TEST_F(TlsTest, ReaderReadsAndIsRejectedWhatChanges) {
  Listen();
  Apply({Web()});
  const auto channel = ChannelOf(reader_);
  ExpectReadsOnly(channel, "other.test");
  EXPECT_EQ(GetStatus().refused_calls(), 4u);
  EXPECT_EQ(List(v1::KIND_SERVICE).size(), 1u);
}

TEST_F(TlsTest, ClientOutsideOfTheListIsRejectedEveryMethodButHealthAndReflection) {
  Listen();
  const auto channel = ChannelOf(stranger_);
  for (const std::string& method : MethodsOfControl()) {
    const grpc::Status status = CallAny(channel, "/svcmap.v1.Control/" + method);
    EXPECT_EQ(status.error_code(), grpc::PERMISSION_DENIED) << method;
    EXPECT_EQ(status.error_message(),
              "svcmap.v1.Control/" + method +
                  " denied: client spiffe://test/stranger is not authorized to read or write; see "
                  "--allow-write and --allow-read of svcmapd");
  }
  EXPECT_EQ(GetStatus().refused_calls(), MethodsOfControl().size());
  EXPECT_TRUE(CallAny(channel, "/grpc.health.v1.Health/Check").ok());
  EXPECT_TRUE(
      CallAny(channel, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo").ok());
}

TEST_F(TlsTest, WithAListACertificateWithoutNamesHasNoRole) {
  Listen();
  const grpc::Status status =
      CallAny(ChannelOf(ca_.Issue("spiffe://test/writer", "")), "/svcmap.v1.Control/GetStatus");
  EXPECT_EQ(status.error_code(), grpc::PERMISSION_DENIED);
  EXPECT_EQ(status.error_message(),
            "svcmap.v1.Control/GetStatus denied: client without a subject alternative name is not "
            "authorized to read or write; see --allow-write and --allow-read of svcmapd");
}

TEST_F(TlsTest, HandshakesEndAsTheCertificateDeserves) {
  Listen();
  EXPECT_EQ(Probe(writer_, TLS1_3_VERSION).problem, "");
  EXPECT_EQ(Probe(writer_, TLS1_2_VERSION).problem, "");
  const uint64_t before = GetStatus().failed_handshakes();
  EXPECT_EQ(Probe(writer_, TLS1_1_VERSION).problem, "tlsv1 alert protocol version");
  const KeyPair expired = ca_.Issue("w", "URI:spiffe://test/writer", std::chrono::hours(-1));
  const struct {
    const char* name;
    KeyPair client;
    const char* alert;
    const char* alert_of_tls12;
    std::string reason;
  } cases[] = {
      {"wrong CA", other_ca_.Issue("w", "URI:spiffe://test/writer"), kUnknownCa, kUnknownCa,
       "certificate CN=w is issued by CN=CA of somebody else, which is "
       "not a trusted CA"},
      {"expired", expired, "sslv3 alert certificate expired", "sslv3 alert certificate expired",
       "certificate CN=w expired at " + ExpiryText(*FirstExpiry(expired.certificate))},
      {"no certificate",
       {},
       "tlsv13 alert certificate required",
       "sslv3 alert handshake failure",
       "peer did not return a certificate"},
  };
  int number = 1;
  for (const auto& c : cases) {
    EXPECT_EQ(Probe(c.client, TLS1_3_VERSION).problem, c.alert) << c.name;
    EXPECT_EQ(Probe(c.client, TLS1_2_VERSION).problem, c.alert_of_tls12) << c.name;
    // The agent logs at most one line per second and peer address.
    const std::string source = "127.0.0." + std::to_string(++number);
    const svcmap::testing::LogCapture log;
    EXPECT_NE(svcmap::testing::ProbeTls(port_, {.client = c.client, .source = source}).problem, "");
    WaitForLog(log, "warning: connection rejected reason=handshake-failed peer=" + source +
                        " error=\"" + c.reason + "\"");
  }
  EXPECT_EQ(Probe(writer_).problem, "");
  // The client can see the alert before svcmapd has counted the failure.
  const uint64_t failed = before + 1 + 3 * std::size(cases);
  EXPECT_TRUE(WaitUntil([&] { return GetStatus().failed_handshakes() >= failed; }));
  EXPECT_EQ(GetStatus().failed_handshakes(), failed);
}

TEST_F(TlsTest, WithoutTlsNoClientMayWrite) {
  const std::string at = "127.0.0.1:" + std::to_string(svcmap::testing::FreeTcpPort());
  ServeAt({.listen = {"tcp://" + at}, .insecure = true});
  ExpectReadsOnly(grpc::CreateChannel(at, grpc::InsecureChannelCredentials()),
                  "without a certificate");
}

TEST_F(TlsTest, AnUnspecifiedAddressAcceptsBothIpFamilies) {
  const uint16_t port = svcmap::testing::FreeTcpPort();
  uint16_t other = port;
  while (other == port) other = svcmap::testing::FreeTcpPort();
  ServeAt({.listen = {absl::StrCat("tcp://0.0.0.0:", port), absl::StrCat("tcp://[::]:", other)},
           .insecure = true});
  for (const std::string& address :
       {absl::StrCat("127.0.0.1:", port), absl::StrCat("[::1]:", port),
        absl::StrCat("127.0.0.1:", other), absl::StrCat("[::1]:", other)}) {
    const auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
    EXPECT_TRUE(CallAny(channel, "/svcmap.v1.Control/GetStatus").ok()) << address;
  }
}

// Connections stay open as long as their channel.
TEST_F(TlsTest, AtTheConnectionLimitAWriterReplacesAReader) {
  limits_.max_connections = 4;
  Listen();
  std::vector<std::shared_ptr<grpc::Channel>> readers;
  for (int i = 0; i < 4; ++i) {
    readers.push_back(ChannelOf(reader_));
    ASSERT_TRUE(CallAny(readers.back(), "/svcmap.v1.Control/GetStatus").ok());
  }
  EXPECT_EQ(CallAny(ChannelOf(reader_), "/svcmap.v1.Control/GetStatus").error_code(),
            grpc::UNAVAILABLE);
  for (int i = 0; i < 4; ++i) {
    const auto writer = readers.emplace_back(ChannelOf(writer_));
    EXPECT_TRUE(CallAny(writer, "/svcmap.v1.Control/Apply").ok()) << i;
  }
  EXPECT_EQ(service_->rejections().count(Rejection::kMadeRoom), 4u);
}

TEST_F(TlsTest, NewFilesAreForNewConnectionsAndALiveStreamGoesOn) {
  Listen();
  const auto stub = v1::Control::NewStub(ChannelOf(writer_));
  Stream stream(*stub, "c");
  ASSERT_EQ(Probe(writer_).server, "agent-1");

  PutPair(ca_.Issue("agent-2", kServerNames));
  EXPECT_EQ(Probe(writer_).server, "agent-2");
  Put("ca.pem", other_ca_.certificate());
  EXPECT_EQ(Probe(writer_).problem, kUnknownCa);
  EXPECT_EQ(Probe(other_ca_.Issue("w", "")).problem, "");
  v1::Change change;
  *change.mutable_service() = Web().service();
  ASSERT_TRUE(stream.Send(1, {change}));
  EXPECT_EQ(stream.ReadAck().outcome(), v1::COMMITTED);
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(TlsTest, BrokenFilesLeaveTheOldOnesInUseAndAreLoggedOnce) {
  Listen();
  const KeyPair old = ca_.Issue("agent-old", kServerNames);
  PutPair(old);
  ASSERT_EQ(Probe(writer_).server, "agent-old");
  const svcmap::testing::LogCapture log;

  const auto goes_on = [&](const std::string& what) {
    for (int i = 0; i < 2; ++i) {
      const TlsProbed probed = Probe(writer_);
      EXPECT_EQ(probed.problem, "") << what;
      EXPECT_EQ(probed.server, "agent-old") << what;
    }
  };
  Put("agent.pem", ca_.Issue("agent-new", kServerNames).certificate);
  goes_on("certificate of another key");
  Put("agent.pem", "rubbish");
  goes_on("certificate is rubbish");
  std::filesystem::remove(Path("agent.pem"));
  goes_on("certificate is gone");
  Put("agent.pem", old.certificate);
  Put("ca.pem", "");
  goes_on("CA is empty");
  const auto line = [](const std::string& error) {
    return "error: changed TLS files rejected, new connections use the previous certificates "
           "error=\"" +
           error + "\"\n";
  };
  EXPECT_EQ(log.Text(),
            line("--tls-key " + Path("agent.key") +
                 ": private key does not match the certificate in --tls-cert " + Path("agent.pem") +
                 " (key values mismatch)") +
                line("--tls-cert " + Path("agent.pem") +
                     ": contains no PEM certificate (no start line)") +
                line("--tls-cert " + Path("agent.pem") + ": No such file or directory (ENOENT)") +
                line("--tls-client-ca " + Path("ca.pem") +
                     ": contains no PEM certificate (no start line)"));

  Put("ca.pem", ca_.certificate());
  PutPair(ca_.Issue("agent-new", kServerNames));
  EXPECT_EQ(Probe(writer_).server, "agent-new");
}

TEST_F(TlsTest, AnExpiredCertificateIsLoggedAtTheStart) {
  const KeyPair expired = ca_.Issue("agent-1", kServerNames, std::chrono::hours(-1));
  PutPair(expired);
  const svcmap::testing::LogCapture log;
  Listen();
  EXPECT_THAT(
      log.Text(),
      HasSubstr("warning: TLS certificate expired, handshakes that need it will "
                "fail file=" +
                Path("agent.pem") + " expired=" + ExpiryText(*FirstExpiry(expired.certificate))));
  EXPECT_THAT(log.Text(), ::testing::Not(HasSubstr("file=" + Path("ca.pem"))));
}

TEST_F(TlsTest, StartWithFilesThatCannotBeUsedFailsAndNamesThem) {
  Put("agent.key", writer_.key);
  service_ = std::make_unique<ControlService>(*loop_, *intake_, hub_, tables_, ControlOptions{});
  options_.listen = {"tcp://127.0.0.1:" + std::to_string(testing::FreeTcpPort())};
  EXPECT_EQ(Server::Start(options_, limits_, *service_).status().message(),
            "--tls-key " + Path("agent.key") +
                ": private key does not match the certificate in --tls-cert " + Path("agent.pem") +
                " (key values mismatch)");
  options_.tls.ca = Path("nowhere.pem");
  EXPECT_EQ(Server::Check(options_).message(),
            "--tls-client-ca " + Path("nowhere.pem") + ": No such file or directory (ENOENT)");
  // If two flags have the same file, the error names the flag whose contents are missing.
  options_.tls = {.certificate = Path("agent.pem"), .key = Path("agent.pem"), .ca = Path("ca.pem")};
  EXPECT_THAT(std::string(Server::Check(options_).message()),
              HasSubstr("--tls-key " + Path("agent.pem") + ": contains no unencrypted PEM"));
}

}  // namespace
}  // namespace svcmap::api
