// Tests of svcmapctl with an agent that uses TLS.
#include <gmock/gmock.h>

#include <sstream>

#include "api/cli/exit_code.h"
#include "api/cli/run.h"
#include "tests/grpc/tls_fixture.h"

namespace svcmap::api {
namespace {

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

TEST_F(CtlTlsTest, RejectionIsPassedOnWithItsReason) {
  Listen();
  Put("client.pem", stranger_.certificate);
  Put("client.key", stranger_.key);
  EXPECT_EQ(Ctl(Tls("status")), ExitCode::kCallRejected);
  EXPECT_EQ(err_, "error: the agent at " + Address() +
                      " rejected the call: PERMISSION_DENIED: svcmap.v1.Control/GetStatus denied: "
                      "client spiffe://test/stranger is not authorized to read or write\n");
}

TEST_F(CtlTlsTest, AgentOfAnotherCaIsNotTrusted) {
  Listen();
  Put("other.pem", other_ca_.certificate());
  EXPECT_EQ(Ctl({"--tls-ca", Path("other.pem"), "status"}), ExitCode::kUnreachable);
  EXPECT_EQ(err_, CannotReach("the agent's certificate is not signed by a CA in --tls-ca, or is "
                              "not currently valid"));
}

TEST_F(CtlTlsTest, AgentWithACertificateForAnotherHostIsNotTrusted) {
  PutPair(ca_.Issue("agent", "DNS:elsewhere.test"));
  Listen();
  EXPECT_EQ(Ctl(Tls("status")), ExitCode::kUnreachable);
  EXPECT_EQ(err_, CannotReach("Peer name 127.0.0.1 is not in peer certificate"));
}

TEST_F(CtlTlsTest, WithoutACertificateTheAgentHangsUp) {
  Listen();
  EXPECT_EQ(Ctl({"--tls-ca", Path("ca.pem"), "status"}), ExitCode::kUnreachable);
  EXPECT_EQ(err_, CannotReach("the agent closed the connection: the agent may require a client "
                              "certificate, see --tls-cert"));
}

TEST_F(CtlTlsTest, CertificateThatTheAgentDoesNotTakeIsHungUpOn) {
  Listen();
  const testing::KeyPair other = other_ca_.Issue("w", "URI:spiffe://test/writer");
  Put("client.pem", other.certificate);
  Put("client.key", other.key);
  EXPECT_EQ(Ctl(Tls("status")), ExitCode::kUnreachable);
  EXPECT_EQ(err_, CannotReach("the agent closed the connection: the agent may reject this client "
                              "certificate or may not use TLS"));
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
  EXPECT_EQ(err_, "error: " + Path("client.key") +
                      ": private key does not match the certificate in " + Path("client.pem") +
                      " (key values mismatch)\n");
}

}  // namespace
}  // namespace svcmap::api
