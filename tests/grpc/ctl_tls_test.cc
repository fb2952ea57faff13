// Tests of svcmapctl with an agent that uses TLS.
#include <gmock/gmock.h>

#include <sstream>

#include "api/cli/exit_code.h"
#include "api/cli/run.h"
#include "api/tls/tls_files.h"
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

}  // namespace
}  // namespace svcmap::api
