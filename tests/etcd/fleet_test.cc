// Tests `svcmapctl fleet wait`, `status` and `nodes` with etcd and two nodes.
#include <gmock/gmock.h>

#include "absl/strings/str_split.h"
#include "tests/etcd/etcd_world.h"

namespace svcmap::testing {
namespace {

using ::testing::HasSubstr;

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

}  // namespace
}  // namespace svcmap::testing
