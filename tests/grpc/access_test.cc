// Tests of TCP listeners with TLS: authentication, authorization, and reloading of certificate
// files.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel_posix.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "api/cli/exit_code.h"
#include "api/cli/run.h"
#include "api/tls/tls_files.h"
#include "nft/base/unique_fd.h"
#include "tests/grpc/any_call.h"
#include "tests/grpc/server_fixture.h"
#include "tests/support/certificates.h"
#include "tests/support/log_capture.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wait.h"

namespace svcmap::api {
namespace {

using svcmap::testing::CallAny;
using svcmap::testing::ExpectReadsOnly;
using svcmap::testing::KeyPair;
using svcmap::testing::TlsProbed;
using svcmap::testing::WaitUntil;
using ::testing::HasSubstr;

constexpr char kServerNames[] = "IP:127.0.0.1";

// A server with a TLS listener on a free port, certificate files, and several kinds of clients.
// Tests read the server's counters through its Unix socket.
class TlsTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    auto folder = testing::TemporaryFolder::Make();
    ASSERT_TRUE(folder.ok()) << folder.status();
    files_folder_.emplace(*std::move(folder));
    options_.tls = {Path("agent.pem"), Path("agent.key"), Path("ca.pem")};
    options_.allow = {.write_names = {"spiffe://test/writer"}, .read_names = {"reader.test"}};
    PutPair(ca_.Issue("agent-1", kServerNames));
    Put("ca.pem", ca_.certificate());
  }

  void Listen() {
    port_ = testing::FreeTcpPort();
    options_.listen = {"tcp://127.0.0.1:" + std::to_string(port_)};
    ServeAt(options_);
  }

  std::string Path(const std::string& name) const { return files_folder_->path() + "/" + name; }

  // Replaces a certificate file by a rename, as a certificate rotation does.
  void Put(const std::string& name, const std::string& text) {
    std::ofstream(Path("new")) << text;
    std::filesystem::rename(Path("new"), Path(name));
  }
  void PutPair(const testing::KeyPair& pair) {
    Put("agent.pem", pair.certificate);
    Put("agent.key", pair.key);
  }

  // Opens a new connection with this client certificate.
  std::shared_ptr<grpc::Channel> ChannelOf(const testing::KeyPair& client) const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(
        "ipv4:127.0.0.1:" + std::to_string(port_),
        grpc::SslCredentials({ca_.certificate(), client.key, client.certificate}), arguments);
  }

  testing::TlsProbed Probe(const testing::KeyPair& client, int max_version = 0) const {
    return testing::ProbeTls(port_, {client, max_version});
  }

  // Waits for a log message with this text, because the agent logs after the client has received
  // the TLS alert.
  static void WaitForLog(const testing::LogCapture& log, const std::string& text) {
    EXPECT_TRUE(testing::WaitUntil([&] { return log.Count(text) > 0; })) << log.Text();
  }

  const testing::CertificateAuthority ca_{"CA of this test"};
  const testing::CertificateAuthority other_ca_{"CA of somebody else"};
  const testing::KeyPair writer_ = ca_.Issue("w", "URI:spiffe://test/writer");
  const testing::KeyPair reader_ = ca_.Issue("r", "DNS:other.test, DNS:reader.test");
  const testing::KeyPair stranger_ = ca_.Issue("s", "URI:spiffe://test/stranger");
  std::optional<testing::TemporaryFolder> files_folder_;
  ListenOptions options_;
  uint16_t port_ = 0;
};

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

// Tests of svcmapctl with an agent that uses TLS.
class CtlTlsTest : public TlsTest {
 protected:
  void SetUp() override {
    TlsTest::SetUp();
    Put("client.pem", writer_.certificate);
    Put("client.key", writer_.key);
  }

  // Runs `svcmapctl --address tcp://127.0.0.1:PORT ...`.
  ExitCode Ctl(std::vector<std::string> args) {
    args.insert(args.begin(), {"--address", Address()});
    std::istringstream in;
    std::ostringstream out;
    std::ostringstream err;
    const int code = api::Run(args, in, out, err);
    out_ = out.str();
    err_ = err.str();
    return static_cast<ExitCode>(code);
  }
  std::string Address() const { return "tcp://127.0.0.1:" + std::to_string(port_); }
  std::vector<std::string> Tls(const std::string& command) const {
    return {"--tls-ca",  Path("ca.pem"),     "--tls-cert", Path("client.pem"),
            "--tls-key", Path("client.key"), command};
  }

  std::string CannotReach(const std::string& why) const {
    return "error: cannot reach the agent at " + Address() + ": " + why + "\n";
  }

  std::string out_;
  std::string err_;
};

TEST_F(CtlTlsTest, StatusOverTls) {
  Listen();
  EXPECT_EQ(Ctl(Tls("status")), ExitCode::kOk) << err_;
  EXPECT_THAT(out_, ::testing::HasSubstr("svcmapd test on node n1"));
}

// gRPC reports the same error for all certificates of the agent that it rejects.
TEST_F(CtlTlsTest, TheReasonWhyTheAgentIsNotTrustedIsNamed) {
  Listen();
  Put("other.pem", other_ca_.certificate());
  EXPECT_EQ(Ctl({"--tls-ca", Path("other.pem"), "status"}), ExitCode::kUnreachable);
  EXPECT_EQ(err_, CannotReach("the agent's certificate is rejected: certificate CN=CA of this test "
                              "is self-signed and is not a trusted CA"));

  const testing::KeyPair expired = ca_.Issue("agent-1", kServerNames, std::chrono::hours(-1));
  PutPair(expired);
  EXPECT_EQ(Ctl(Tls("status")), ExitCode::kUnreachable);
  EXPECT_EQ(err_, CannotReach("the agent's certificate is rejected: certificate CN=agent-1 expired "
                              "at " +
                              ExpiryText(*FirstExpiry(expired.certificate))));

  PutPair(ca_.Issue("agent", "DNS:elsewhere.test"));
  EXPECT_EQ(Ctl(Tls("status")), ExitCode::kUnreachable);
  EXPECT_EQ(err_, CannotReach("the agent's certificate is rejected: certificate CN=agent is for "
                              "other names: DNS:elsewhere.test"));
}

TEST_F(CtlTlsTest, TheReasonWhyTheAgentRejectsTheClientIsNamed) {
  Listen();
  EXPECT_EQ(Ctl({"--tls-ca", Path("ca.pem"), "status"}), ExitCode::kUnreachable);
  EXPECT_EQ(err_, CannotReach("the agent requires a client certificate, see --tls-cert"));

  const auto reject = [&](const testing::KeyPair& client) {
    Put("client.pem", client.certificate);
    Put("client.key", client.key);
    EXPECT_EQ(Ctl(Tls("status")), ExitCode::kUnreachable);
    return err_;
  };
  EXPECT_EQ(reject(other_ca_.Issue("w", "URI:spiffe://test/writer")),
            CannotReach("the agent rejected the client certificate, because no CA in the agent's "
                        "--tls-client-ca has signed it"));
  const testing::KeyPair expired =
      ca_.Issue("w", "URI:spiffe://test/writer", std::chrono::hours(-1));
  EXPECT_EQ(reject(expired),
            CannotReach("the agent rejected the client certificate, which expired at " +
                        ExpiryText(*FirstExpiry(expired.certificate))));
}

TEST_F(CtlTlsTest, WithoutTlsTheAgentHangsUp) {
  Listen();
  EXPECT_EQ(Ctl({"status"}), ExitCode::kUnreachable);
  EXPECT_EQ(err_, CannotReach(
                      "the agent closed the connection: the agent may require TLS, see --tls-ca"));
}

TEST_F(CtlTlsTest, FilesThatCannotBeUsedAreNamedBeforeAnythingIsSent) {
  Listen();
  Put("client.key", reader_.key);
  EXPECT_EQ(Ctl(Tls("status")), ExitCode::kUsage);
  EXPECT_EQ(err_, "error: --tls-cert, --tls-key, --tls-ca: " + Path("client.key") +
                      ": private key does not match the certificate in " + Path("client.pem") +
                      " (key values mismatch)\n");
}

// Tests of the authorization of Unix socket clients by uid.

constexpr uid_t kWriterUid = 1001;
constexpr uid_t kReaderUid = 1002;
constexpr uid_t kStrangerUid = 1003;

class UidTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    if (geteuid() != 0) GTEST_SKIP() << "only root can connect with the UID of another user";
    ASSERT_EQ(chmod(folder_->path().c_str(), 0755), 0);
  }

  void ListenForUids() {
    ServeAt({.allow = {.write_uids = {kWriterUid}, .read_uids = {kReaderUid}}});
  }

  // Connects with another uid. The uid changes only for the calling thread and only during this
  // function. Returns errno, or 0 on success.
  int ConnectAs(uid_t uid, UniqueFd& fd) const {
    fd = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {.sun_family = AF_UNIX};
    std::strncpy(address.sun_path, socket().c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(syscall(SYS_setresuid, -1, uid, -1), 0);
    const bool connected =
        connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    const int error = connected ? 0 : errno;
    EXPECT_EQ(syscall(SYS_setresuid, -1, 0, -1), 0);
    return error;
  }

  std::shared_ptr<grpc::Channel> ChannelAs(uid_t uid) const {
    UniqueFd fd;
    EXPECT_EQ(ConnectAs(uid, fd), 0);
    fcntl(fd.get(), F_SETFL, O_NONBLOCK);
    return grpc::CreateInsecureChannelFromFd("uid", fd.Release());
  }
};

TEST_F(UidTest, WithoutNamedUidsOnlyTheOwnerAndRootCanOpenTheSocket) {
  Serve();
  UniqueFd fd;
  EXPECT_EQ(ConnectAs(kStrangerUid, fd), EACCES);
  EXPECT_TRUE(CallAny(ChannelAs(0), "/svcmap.v1.Control/Apply").ok());
}

TEST_F(UidTest, UidOutsideOfTheListsIsHungUpOn) {
  ListenForUids();
  UniqueFd fd;
  ASSERT_EQ(ConnectAs(kStrangerUid, fd), 0);
  const timeval patience = {10, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  char byte = 0;
  // The server closes the connection without sending data.
  EXPECT_EQ(recv(fd.get(), &byte, 1, 0), 0);
  EXPECT_EQ(GetStatus().refused_calls(), 1u);
}

TEST_F(UidTest, ReaderReadsAndIsRejectedWhatChanges) {
  ListenForUids();
  const auto channel = ChannelAs(kReaderUid);
  ExpectReadsOnly(channel, "uid 1002");
  EXPECT_EQ(GetStatus().refused_calls(), 4u);
  EXPECT_TRUE(CallAny(channel, "/grpc.health.v1.Health/Check").ok());
  EXPECT_TRUE(
      CallAny(channel, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo").ok());
}

// A Watch stream. `open` is true if the agent has sent the first event.
struct OpenWatch {
  explicit OpenWatch(v1::Control::Stub& stub) {
    context.set_deadline(std::chrono::system_clock::now() + svcmap::testing::kHangLimit);
    reader = stub.Watch(&context, {});
    v1::WatchEvent event;
    open = reader->Read(&event);
  }
  ~OpenWatch() {
    context.TryCancel();
    reader->Finish();
  }
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<v1::WatchEvent>> reader;
  bool open = false;
};

TEST_F(UidTest, OneUserCanUseAQuarterOfTheWatchStreams) {
  limits_.max_watchers = 8;
  ListenForUids();
  const auto reader = v1::Control::NewStub(ChannelAs(kReaderUid));
  const OpenWatch first(*reader);
  EXPECT_TRUE(first.open);
  const auto same_user = v1::Control::NewStub(ChannelAs(kReaderUid));
  const OpenWatch second(*same_user);
  EXPECT_TRUE(second.open);
  {
    grpc::ClientContext context;
    SetDeadline(context);
    const auto third = same_user->Watch(&context, {});
    v1::WatchEvent event;
    EXPECT_FALSE(third->Read(&event));
    const grpc::Status status = third->Finish();
    EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_EQ(status.error_message(),
              "no more than 2 watchers of one client at a time, a quarter of --max-watchers 8; "
              "stream rejected");
  }
  const auto writer = v1::Control::NewStub(ChannelAs(kWriterUid));
  const OpenWatch other(*writer);
  EXPECT_TRUE(other.open);
}

}  // namespace
}  // namespace svcmap::api
