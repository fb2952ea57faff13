// Tests `svcmapctl fleet` with etcd and svcmapd.
#include <gmock/gmock.h>
#include <signal.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/etcd/etcd_world.h"
#include "tests/support/certificates.h"
#include "tests/support/shim_clock.h"

namespace svcmap::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

// The second node has its own namespace for svcmapd. svcmap-etcd only needs the Unix socket.
TEST_F(EtcdTest, AFleetWaitsForASequenceNumber) {
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSource({"--status-prefix", kStatusPrefix}));
  ASSERT_OK_AND_ASSIGN(const NetNs second, NetNs::Create());
  const std::string address = "unix://" + folder_->path() + "/second.sock";
  std::vector<std::string> flags = kAgentFlags;
  flags.insert(flags.end(), {"--listen", address});
  ASSERT_OK_AND_ASSIGN(const auto agent, Agent::Start(second, flags));
  ASSERT_OK_AND_ASSIGN(
      const auto source,
      ChildProcess::Start(
          {.argv = {SVCMAP_BIN_DIR "/svcmap-etcd", "--prefix", prefix_, "--agent", address,
                    "--node-name", "n2", "--list-delay=0", "--status-prefix", kStatusPrefix,
                    absl::StrCat("--etcd-endpoints=http://127.0.0.1:", kEtcdPort)},
           .netns = &*netns_}));
  const auto fleet = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--status-prefix", kStatusPrefix});
    return Fleet(arguments);
  };
  const auto wait = [&](uint64_t seq, const std::string& timeout) {
    return fleet({"wait", "--seq", absl::StrCat(seq), "--timeout", timeout, "--window", "1s"});
  };
  const auto versions = [&] {
    std::vector<std::string> counts;
    for (const char* node : {"n1", "n2"}) {
      const auto found =
          etcd_->Control({"get", "-w", "fields", absl::StrCat(kStatusPrefix, "/nodes/", node)});
      const std::string text = found.ok() ? *found : std::string(found.status().message());
      const size_t at = text.find("\"Version\" :");
      counts.push_back(
          at == std::string::npos ? "0" : text.substr(at + 12, text.find('\n', at) - at - 12));
    }
    return absl::StrJoin(counts, ",");
  };
  const auto next = [](const std::string& counts) {
    std::vector<std::string> all = absl::StrSplit(counts, ',');
    for (std::string& count : all) count = absl::StrCat(std::stoi(count) + 1);
    return absl::StrJoin(all, ",");
  };

  // A node without a status key is unknown until it answers the request.
  ASSERT_OK(wait(writer_->seq(), "60s"));
  ASSERT_OK(Eventually("two nodes", [&] {
    const auto status = fleet({"status"});
    return status.ok() && absl::StrContains(status->out, "up to date         2\n");
  })) << source->err();
  const std::string before = versions();
  ASSERT_OK(Put({Web(1, "10.96.99.1")}));
  ASSERT_OK_AND_ASSIGN(const CommandResult reached, wait(writer_->seq(), "60s"));
  EXPECT_TRUE(reached.exit.ok()) << reached.err;
  EXPECT_EQ(reached.out,
            absl::StrCat("2 of 2 nodes have acknowledged seq ", writer_->seq(), ".\n"));
  EXPECT_EQ(versions(), next(before));
  ASSERT_OK_AND_ASSIGN(const CommandResult status, fleet({"status"}));
  EXPECT_THAT(status.out, HasSubstr("up to date         2\n"));
  EXPECT_THAT(status.out, HasSubstr("unhealthy          0\n"));

  ASSERT_OK(agent->Kill());
  // Until svcmap-etcd notices the loss of svcmapd, a transaction without objects needs no Ack.
  ASSERT_OK(Put({Web(1, "10.96.99.2")}));
  ASSERT_OK_AND_ASSIGN(const CommandResult late, wait(writer_->seq(), "5s"));
  EXPECT_EQ(late.exit.code, 1);
  EXPECT_THAT(late.err, HasSubstr("timed out after 5s; 1 of 2 nodes have acknowledged seq"));
  EXPECT_THAT(late.err, HasSubstr("note: missing: n2\n"));
  EXPECT_OK(Eventually("an unhealthy node", [&] {
    const auto nodes = fleet({"nodes", "--behind"});
    return nodes.ok() && absl::StrContains(nodes->out, "behind,unhealthy") &&
           !absl::StrContains(nodes->out, "n1");
  }));
}

// svcmapd of the node listens on TCP with certificates, and svcmap-etcd writes its address.
TEST_F(EtcdTest, AFleetExplainsWithTheAgentOfANode) {
  const CertificateAuthority ca("ca");
  const std::string path = folder_->path() + "/";
  const auto write = [&](const std::string& name, const KeyPair& pair) {
    std::ofstream(path + name + ".crt") << pair.certificate;
    std::ofstream(path + name + ".key") << pair.key;
  };
  std::ofstream(path + "ca.crt") << ca.certificate();
  write("node", ca.Issue("node", "DNS:node.example"));
  write("reader", ca.Issue("reader", "DNS:reader"));
  write("other", ca.Issue("other", "DNS:other"));
  ASSERT_OK(agent_->Stop());
  agent_.reset();
  ASSERT_OK(StartAgent({"--listen", "tcp://127.0.0.1:7070", "--tls-cert", path + "node.crt",
                        "--tls-key", path + "node.key", "--tls-client-ca", path + "ca.crt",
                        "--allow-read", "reader"}));
  ASSERT_OK(Put(Webs(3)));
  const auto start = [&](const std::string& address) {
    return StartSource({"--status-prefix", kStatusPrefix, "--agent-address", address});
  };
  ASSERT_OK(start("tcp://127.0.0.1:7070"));
  const auto fleet = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--status-prefix", kStatusPrefix});
    return Fleet(arguments);
  };
  ASSERT_OK(fleet({"wait", "--seq", absl::StrCat(writer_->seq()), "--window", "1s"}));
  const auto explain = [&](const std::string& user, const std::string& server = "node.example") {
    return fleet({"explain", kAgentNode, Ip(1) + ":80", "--from", "node", "--tls-ca",
                  path + "ca.crt", "--tls-cert", path + user + ".crt", "--tls-key",
                  path + user + ".key", "--tls-server-name", server});
  };
  ASSERT_OK_AND_ASSIGN(const CommandResult explained, explain("reader"));
  EXPECT_TRUE(explained.exit.ok()) << explained.err;
  ASSERT_OK_AND_ASSIGN(
      const CommandResult local,
      RunCommand({.argv = {SVCMAP_BIN_DIR "/svcmapctl", "--address", AgentAddress(), "explain",
                           Ip(1) + ":80", "--from", "node"}},
                 kHangLimit));
  EXPECT_EQ(explained.out, local.out);
  EXPECT_THAT(explained.out, HasSubstr("shop/s1"));

  ASSERT_OK_AND_ASSIGN(const CommandResult denied, explain("other"));
  EXPECT_EQ(denied.exit.code, 4) << denied.err;
  EXPECT_THAT(denied.err, HasSubstr("PERMISSION_DENIED"));
  ASSERT_OK_AND_ASSIGN(const CommandResult wrong, explain("reader", "other.example"));
  EXPECT_EQ(wrong.exit.code, 3) << wrong.out;
  EXPECT_THAT(wrong.err, HasSubstr("the agent's certificate is rejected: "));

  // A new address replaces the address that the earlier process has written.
  ASSERT_OK(StopSource());
  ASSERT_OK(start("tcp://127.0.0.1:1"));
  EXPECT_OK(Eventually("the new address", [&] {
    const auto answer = explain("reader");
    return answer.ok() && answer->exit.code == 3 &&
           absl::StrContains(answer->err, "cannot reach the agent at tcp://127.0.0.1:1") &&
           absl::StrContains(answer->err, "note: status of node n1 in etcd: ok, seq ");
  }));
}

// Tests of `svcmapctl fleet serve`. curl simulates a browser.
class FleetServeTest : public EtcdTest {
 protected:
  absl::Status StartServer(const std::string& listen, uint16_t etcd_port,
                           const std::vector<std::string>& environment = {}) {
    auto server = ChildProcess::Start(
        {.argv = {SVCMAP_BIN_DIR "/svcmapctl", "fleet", "serve", "--prefix", prefix_,
                  "--status-prefix", kStatusPrefix, "--etcd-endpoints",
                  absl::StrCat("http://127.0.0.1:", etcd_port), "--listen", listen},
         .netns = &*netns_,
         .env = environment});
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    if (server_->WaitForOutput("serving http://" + listen + "/\n", kHangLimit)) {
      return absl::OkStatus();
    }
    return absl::InternalError(server_->err());
  }
  absl::StatusOr<std::unique_ptr<ChildProcess>> Curl(const std::vector<std::string>& arguments) {
    std::vector<std::string> argv = {"curl", "-s", "-N"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return ChildProcess::Start({.argv = std::move(argv), .netns = &*netns_});
  }
  // Returns the HTTP status for a request with the Host header `host`.
  std::string CodeFor(const std::string& host) {
    const auto curl = Curl({"-o", "/dev/null", "-w", "%{http_code}", "-H", "Host: " + host,
                            "http://127.0.0.1:10261/status.json"});
    if (!curl.ok() || !(*curl)->Wait(kHangLimit)) return "no response";
    return (*curl)->out();
  }

  std::unique_ptr<ChildProcess> server_;
};

TEST_F(FleetServeTest, ABrowserReceivesThePageAndEvents) {
  const auto put_status = [&](const std::string& node, uint64_t seq, int rejected) {
    return etcd_->Control(
        {"put", absl::StrCat(kStatusPrefix, "/nodes/", node),
         absl::StrCat(R"({"seq":)", seq, R"(,"epoch":1,"revision":1,"healthy":true,"reason":"",)",
                      R"("rejected":)", rejected, R"(,"held":false,"version":"1",)",
                      R"("time":"2026-09-21T14:13:20Z"})")});
  };
  ASSERT_OK(writer_->Put(Webs(3)));
  ASSERT_OK(put_status("n1", writer_->seq(), 0));
  ASSERT_OK(put_status("<b>n2</b>", 1, 0));
  ASSERT_OK(StartServer("127.0.0.1:10261", kEtcdPort));
  const auto curl = [&](const std::vector<std::string>& arguments) { return Curl(arguments); };
  const std::string url = "http://127.0.0.1:10261/";
  ASSERT_OK_AND_ASSIGN(const auto page, curl({"-i", url}));
  EXPECT_TRUE(page->Wait(kHangLimit).has_value());
  EXPECT_THAT(page->out(), HasSubstr("HTTP/1.1 200 OK"));
  EXPECT_THAT(page->out(), HasSubstr("Content-Security-Policy: default-src 'none'; connect-src "
                                     "'self'; img-src data:; style-src 'sha256-"));
  EXPECT_THAT(page->out(), HasSubstr("<title>svcmap fleet</title>"));
  EXPECT_THAT(page->out(), Not(HasSubstr("innerHTML")));

  ASSERT_OK_AND_ASSIGN(const auto events, curl({"-i", url + "events"}));
  ASSERT_TRUE(events->WaitForOutput("Content-Type: text/event-stream", kHangLimit));
  ASSERT_TRUE(events->WaitForOutput("\r\ndata: {\"behind\":1,\"changes\":[],", kHangLimit))
      << events->out();
  EXPECT_THAT(events->out(), HasSubstr("\"name\":\"<b>n2</b>\""));
  ASSERT_OK(put_status("n1", writer_->seq(), 2));
  EXPECT_TRUE(events->WaitForOutput("\"text\":\"n1: silent -> rejecting,silent\"", kHangLimit))
      << events->out();

  // status.json has the fields of `fleet status -o json`.
  ASSERT_OK_AND_ASSIGN(const auto json, curl({url + "status.json"}));
  EXPECT_TRUE(json->Wait(kHangLimit).has_value());
  ASSERT_OK_AND_ASSIGN(const CommandResult status,
                       Fleet({"status", "-o", "json", "--status-prefix", kStatusPrefix}));
  for (const absl::string_view line : absl::StrSplit(status.out, '\n')) {
    const std::vector<std::string> field = absl::StrSplit(line, ": ");
    if (field.size() != 2) continue;
    const std::string name(absl::StripAsciiWhitespace(field[0]));
    EXPECT_THAT(json->out(),
                HasSubstr(absl::StrCat(name, ":", std::string(absl::StripSuffix(field[1], ",")))));
  }
  ASSERT_OK_AND_ASSIGN(const auto missing, curl({"-i", url + "other"}));
  EXPECT_TRUE(missing->Wait(kHangLimit).has_value());
  EXPECT_THAT(missing->out(), HasSubstr("404 Not Found"));

  ASSERT_OK(etcd_->Stop());
  EXPECT_TRUE(events->WaitForOutput("data: {\"error\":\"", kHangLimit)) << events->out();
  ASSERT_OK(etcd_->StartAgain());
  ASSERT_OK(put_status("n1", writer_->seq(), 0));
  EXPECT_TRUE(events->WaitForOutput("\"text\":\"n1: rejecting,silent -> silent\"", kHangLimit))
      << events->out();
}

// If the name of a web page resolves to 127.0.0.1, the browser sends this name as Host header.
TEST_F(FleetServeTest, RequestsForOtherHostsAreRejected) {
  ASSERT_OK(StartServer("127.0.0.1:10261", kEtcdPort));
  for (const char* host :
       {"localhost", "LOCALHOST:10261", "127.0.0.1:10261", "127.8.0.1", "[::1]:8080"}) {
    EXPECT_EQ(CodeFor(host), "200") << host;
  }
  for (const char* host : {"example.com:10261", "localhost.example.com", "192.0.2.1", "[::2]", "1",
                           "127.0.0.1.example.com", ""}) {
    EXPECT_EQ(CodeFor(host), "421") << host;
  }
  ASSERT_OK(server_->Signal(SIGKILL));
  ASSERT_TRUE(server_->Wait(kHangLimit).has_value());
  // With this address, the server accepts connections to all addresses of the host.
  ASSERT_OK(StartServer("0.0.0.0:10261", kEtcdPort));
  EXPECT_EQ(CodeFor("192.0.2.1:10261"), "200");
  EXPECT_EQ(CodeFor("example.com:10261"), "421");
}

TEST_F(FleetServeTest, ADeadEtcdIsShownAfterTheClockWasSetBack) {
  ASSERT_OK_AND_ASSIGN(const auto clock, ShimClock::Make(folder_->path()));
  ASSERT_OK(StartServer("127.0.0.1:10261", kProxyPort, clock->environment()));
  ASSERT_OK_AND_ASSIGN(const auto events, Curl({"http://127.0.0.1:10261/events"}));
  ASSERT_TRUE(events->WaitForOutput("data: {\"behind\":0", kHangLimit)) << events->out();
  proxy_->Delay(1h);
  clock->Step(-1h);
  EXPECT_TRUE(events->WaitForOutput("data: {\"error\":\"", kHangLimit)) << events->out();
  proxy_->Delay(0s);
  EXPECT_OK(Eventually("a new state", [&] {
    const std::string shown = events->out();
    return absl::StrContains(shown.substr(shown.rfind("data: ")), "\"behind\":0");
  }));
}

}  // namespace
}  // namespace svcmap::testing
