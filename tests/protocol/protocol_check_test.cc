// Runs svcmap-protocol-check against svcmapd on a Unix socket and with TLS.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "tests/contract/private_netns.h"
#include "tests/support/agent.h"
#include "tests/support/certificates.h"
#include "tests/support/file.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::protocol {
namespace {

using svcmap::testing::Agent;
using svcmap::testing::CertificateAuthority;
using svcmap::testing::CommandResult;
using svcmap::testing::KeyPair;
using svcmap::testing::NetNs;
using svcmap::testing::TemporaryFolder;
using ::testing::HasSubstr;

constexpr std::chrono::seconds kKitPatience{200};

// One line of the output of `svcmap-protocol-check --list`.
struct Listed {
  std::string name;
  std::string promise;
};

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Replaces each sequence of whitespace with one space.
std::string Words(const std::string& text) {
  std::istringstream stream(text);
  std::string words;
  for (std::string word; stream >> word;) words += word + " ";
  return words;
}

class ProtocolCheckTest : public ::testing::Test {
 protected:
  // All tests of this program use one network namespace, because gRPC threads stay in their network
  // namespace until the process ends.
  void SetUp() override {
    if (!netns_) {
      svcmap::testing::MakePrivateNetNs(netns_);
      if (!netns_) return;
      ASSERT_OK(netns_->Enter());
    }
    ASSERT_OK_AND_ASSIGN(TemporaryFolder folder, TemporaryFolder::Make());
    folder_.emplace(std::move(folder));
  }

  static CommandResult Kit(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), SVCMAP_BIN_DIR "/svcmap-protocol-check");
    const auto result = svcmap::testing::RunCommand({.argv = arguments}, kKitPatience);
    EXPECT_OK(result);
    return result.ok() ? *result : CommandResult();
  }
  static CommandResult KitAt(const std::string& address, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--address", address, "--i-know-it-replaces-everything"});
    return Kit(more);
  }
  static std::vector<Listed> AllListed() {
    std::vector<Listed> all;
    for (const std::string& line : LinesOf(Kit({"--list"}).out)) {
      const size_t tab = line.find('\t');
      all.push_back({line.substr(0, tab), line.substr(tab + 1)});
    }
    EXPECT_GT(all.size(), 20u);
    return all;
  }

  std::string Path(const std::string& name) const { return folder_->path() + "/" + name; }
  void WriteFile(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
  }

  static inline std::optional<NetNs> netns_;
  std::optional<TemporaryFolder> folder_;
};

TEST_F(ProtocolCheckTest, AllThatIsPromisedIsKeptOverAUnixSocket) {
  ASSERT_OK_AND_ASSIGN(const auto agent, Agent::Start(*netns_));
  const CommandResult kit = KitAt(agent->socket());
  std::cout << kit.out;
  EXPECT_EQ(kit.exit.code, 0) << kit.out << kit.err;
  for (const Listed& listed : AllListed()) {
    EXPECT_THAT(kit.out, ::testing::AnyOf(HasSubstr("\npassed " + listed.name),
                                          HasSubstr("\nskipped " + listed.name + ": needs --")));
  }
  EXPECT_THAT(kit.out, HasSubstr(" passed, 0 failed, 6 skipped in "));
  EXPECT_OK(agent->CheckServing());
}

TEST_F(ProtocolCheckTest, EveryPromiseStandsInTheDocumentation) {
  const std::string text = Words(svcmap::testing::ReadFile(SVCMAP_SOURCE_DIR "/proto/README.md")) +
                           Words(svcmap::testing::ReadFile(SVCMAP_SOURCE_DIR "/docs/security.md"));
  for (const Listed& listed : AllListed()) {
    std::string promise = Words(listed.promise);
    promise.pop_back();
    EXPECT_THAT(text, HasSubstr(promise)) << listed.name;
  }
}

TEST_F(ProtocolCheckTest, NothingIsReplacedUnasked) {
  ASSERT_OK_AND_ASSIGN(const auto agent, Agent::Start(*netns_));
  const CommandResult kit = Kit({"--address", agent->socket()});
  EXPECT_EQ(kit.exit.code, 2);
  EXPECT_THAT(
      kit.err,
      HasSubstr(
          "--i-know-it-replaces-everything: Required value: the checks remove all objects of the "
          "agent; no check was run"));
}

class ProtocolCheckTlsTest : public ProtocolCheckTest {
 protected:
  void SetUp() override {
    ProtocolCheckTest::SetUp();
    if (!folder_) return;
    const KeyPair pair = ca_.Issue("agent", "IP:127.0.0.1");
    WriteFile("agent.pem", pair.certificate);
    WriteFile("agent.key", pair.key);
    WriteFile("ca.pem", ca_.certificate());
    port_ = svcmap::testing::FreeTcpPort();
    ASSERT_OK_AND_ASSIGN(
        agent_, Agent::Start(*netns_,
                             {"--listen=" + Address(), "--tls-cert=" + Path("agent.pem"),
                              "--tls-key=" + Path("agent.key"), "--tls-client-ca=" + Path("ca.pem"),
                              "--allow-write=spiffe://test/writer", "--allow-read=reader.test"}));
  }
  std::string Address() const { return "tcp://127.0.0.1:" + std::to_string(port_); }

  std::string ClientFile(const std::string& name, const KeyPair& pair) const {
    WriteFile(name, pair.certificate + pair.key);
    return Path(name);
  }

  const CertificateAuthority ca_{"CA of this test"};
  const CertificateAuthority other_ca_{"CA of somebody else"};
  const KeyPair writer_ = ca_.Issue("w", "URI:spiffe://test/writer");
  uint16_t port_ = 0;
  std::unique_ptr<Agent> agent_;
};

TEST_F(ProtocolCheckTlsTest, AllThatIsPromisedIsKeptOverTls) {
  WriteFile("agents-ca.pem", ca_.certificate());
  const std::string writer = ClientFile("writer", writer_);
  const std::string name = "URI:spiffe://test/writer";
  const CommandResult kit = KitAt(
      Address(),
      {"--tls-ca", Path("agents-ca.pem"), "--tls-cert", writer, "--tls-key", writer,
       "--wrong-client", ClientFile("wrong", other_ca_.Issue("w", name)), "--expired-client",
       ClientFile("expired", ca_.Issue("w", name, std::chrono::hours(-1))), "--outside-client",
       ClientFile("outside", ca_.Issue("s", "URI:spiffe://test/stranger")), "--readonly-client",
       ClientFile("reader", ca_.Issue("r", "DNS:reader.test"))});
  std::cout << kit.out;
  EXPECT_EQ(kit.exit.code, 0) << kit.out << kit.err;
  for (const Listed& listed : AllListed()) {
    EXPECT_THAT(kit.out, HasSubstr("\npassed " + listed.name));
  }
  EXPECT_OK(agent_->CheckServing());
}

}  // namespace
}  // namespace svcmap::protocol
