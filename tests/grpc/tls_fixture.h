// A server with a TLS listener on a free port, certificate files, and several kinds of clients.
// Tests read the server's counters through its Unix socket.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "tests/grpc/server_fixture.h"
#include "tests/support/certificates.h"
#include "tests/support/log_capture.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wait.h"

namespace svcmap::api {

inline constexpr char kServerNames[] = "IP:127.0.0.1";

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

}  // namespace svcmap::api
