// Tests svcmap-etcd with etcd and svcmapd in a namespace.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "api/manifests/manifests.h"
#include "svcmap/etcd/v3/etcd.grpc.pb.h"
#include "tests/support/agent.h"
#include "tests/support/certificates.h"
#include "tests/support/etcd_server.h"
#include "tests/support/raw_http.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wait.h"

namespace svcmap::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

constexpr uint16_t kProxyPort = 2378;
constexpr uint16_t kFaultyPort = 2377;
constexpr uint16_t kPagesPort = 10259;
constexpr char kStatusPrefix[] = "/svcmap-status/v1/test";
const std::vector<std::string> kAgentFlags = {"--healthz-bind-address=", "--metrics-bind-address="};

std::string Ip(int n) { return absl::StrCat("10.96.", n / 250, ".", 1 + n % 250); }

v1::Object Web(int n, const std::string& ip) {
  return AService(absl::StrCat("shop/s", n)).ClusterIp(ip).Port("tcp", 80);
}
v1::Object Slice(int n, const std::string& ip) {
  const std::string service = absl::StrCat("s", n);
  return ASlice("shop/" + service).Named(service).Endpoint(ip, "n2").Port("tcp", 8080);
}
std::string WebKey(int n) { return absl::StrCat("/state/services/shop/s", n); }
std::string SliceKey(int n) { return absl::StrCat("/state/endpointslices/shop/s", n); }

// Builds `count` Services with one endpoint each.
Objects Webs(int count) {
  Objects objects;
  for (int n = 0; n < count; ++n) {
    objects.push_back(Web(n, Ip(n)));
    objects.push_back(Slice(n, "10.244.2.1"));
  }
  return objects;
}

Objects Node() { return {ANode(kAgentNode).InternalIp("192.168.77.1")}; }

// Returns the serialized objects, sorted.
std::set<std::string> Encoded(const Objects& objects) {
  std::set<std::string> encoded;
  for (const v1::Object& object : objects) encoded.insert(EtcdKey(object) + EtcdValue(object));
  return encoded;
}

class EtcdTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(NetNsAvailable());
    ASSERT_OK_AND_ASSIGN(NetNs netns, NetNs::Create());
    netns_.emplace(std::move(netns));
    ASSERT_OK_AND_ASSIGN(TemporaryFolder folder, TemporaryFolder::Make());
    folder_.emplace(std::move(folder));
    ASSERT_OK_AND_ASSIGN(etcd_, EtcdServer::Start(*netns_, folder_->path()));
    writer_.emplace(etcd_->socket(), /*epoch=*/1);
    ASSERT_OK_AND_ASSIGN(proxy_, TcpProxy::Start(*netns_, kProxyPort, kEtcdPort));
    ASSERT_OK(StartAgent());
    ASSERT_OK(writer_->Put(Node()));
    objects_ = Node();
  }

  void TearDown() override {
    if (HasFailure() && source_ != nullptr) GTEST_LOG_(INFO) << source_->err();
    source_.reset();
    agent_.reset();
  }

  // svcmapd keeps its socket and state when it is started again.
  absl::Status StartAgent(const std::vector<std::string>& more_flags = {}) {
    std::vector<std::string> flags = kAgentFlags;
    flags.insert(flags.end(),
                 {"--listen", AgentAddress(), "--state-dir", folder_->path() + "/state"});
    flags.insert(flags.end(), more_flags.begin(), more_flags.end());
    auto agent = Agent::Start(*netns_, flags);
    if (!agent.ok()) return agent.status();
    agent_ = *std::move(agent);
    return absl::OkStatus();
  }

  std::string AgentAddress() const { return "unix://" + folder_->path() + "/svcmapd.sock"; }

  // Connects through the proxy, except if `flags` contain other endpoints.
  absl::Status StartSource(const std::vector<std::string>& flags = {}) {
    std::vector<std::string> argv = {SVCMAP_BIN_DIR "/svcmap-etcd",
                                     "-v",
                                     "--prefix",
                                     prefix_,
                                     "--agent",
                                     AgentAddress(),
                                     "--node-name",
                                     kAgentNode,
                                     "--list-delay=0",
                                     absl::StrCat("--healthz-bind-address=127.0.0.1:", kPagesPort)};
    argv.insert(argv.end(), flags.begin(), flags.end());
    if (!absl::StrContains(absl::StrJoin(flags, " "), "--etcd-endpoints")) {
      argv.push_back(absl::StrCat("--etcd-endpoints=http://127.0.0.1:", kProxyPort));
    }
    auto source = ChildProcess::Start({.argv = std::move(argv), .netns = &*netns_});
    if (!source.ok()) return source.status();
    source_ = *std::move(source);
    return absl::OkStatus();
  }
  absl::Status StopSource() {
    if (absl::Status status = source_->Signal(SIGTERM); !status.ok()) return status;
    const auto exit = source_->Wait(kHangLimit);
    if (exit && exit->ok()) return absl::OkStatus();
    return absl::InternalError("SIGTERM of svcmap-etcd: " + (exit ? exit->ToString() : "hangs"));
  }
  bool Logged(const std::string& text) { return source_->WaitForOutput(text, kHangLimit); }

  // Writes the objects in one transaction.
  absl::Status Put(const Objects& objects) {
    for (const v1::Object& object : objects) {
      std::erase_if(objects_, [&](const auto& old) { return EtcdKey(old) == EtcdKey(object); });
      objects_.push_back(object);
    }
    return writer_->Put(objects);
  }
  absl::Status Remove(const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      std::erase_if(objects_, [&](const auto& old) { return EtcdKey(old) == key; });
    }
    return writer_->Remove(keys);
  }

  // Waits until svcmapd has exactly the objects of the writer.
  absl::Status UntilSynced() {
    const std::set<std::string> expected = Encoded(objects_);
    return Eventually(absl::StrCat(expected.size(), " objects in svcmapd"), [&] {
      const absl::StatusOr<Objects> stored = agent_->List();
      return stored.ok() && Encoded(*stored) == expected;
    });
  }

  // Returns the cluster IPs of the Services in svcmapd, sorted by the names of the Services.
  std::vector<std::string> ClusterIps() {
    std::vector<std::string> ips;
    const absl::StatusOr<Objects> services = agent_->List(v1::KIND_SERVICE);
    if (!services.ok()) return {std::string(services.status().message())};
    for (const v1::Object& object : *services) ips.push_back(object.service().spec().cluster_ip());
    return ips;
  }

  // Runs `svcmapctl fleet`.
  absl::StatusOr<CommandResult> Fleet(const std::vector<std::string>& arguments) {
    std::vector<std::string> argv = {SVCMAP_BIN_DIR "/svcmapctl", "fleet",  "--prefix", prefix_,
                                     "--etcd-endpoints",          etcd_url_};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return RunCommand({.argv = std::move(argv), .netns = &*netns_}, kHangLimit);
  }
  // Runs `svcmapctl fleet apply` with a file that contains `text`.
  absl::StatusOr<CommandResult> FleetApply(const std::string& text,
                                           const std::vector<std::string>& flags = {}) {
    const std::string path = folder_->path() + "/fleet.yaml";
    std::ofstream(path) << text;
    std::vector<std::string> arguments = {"apply", "-f", path};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return Fleet(arguments);
  }
  // Returns the etcd revision of the last change to a key below the prefix. 0 if the key does not
  // exist.
  int64_t RevisionOf(const std::string& key) {
    const auto found = etcd_->Control({"get", "-w", "json", prefix_ + key});
    if (!found.ok()) return -1;
    const size_t at = found->find("\"mod_revision\":");
    return at == std::string::npos ? 0 : std::stoll(found->substr(at + 15));
  }

  std::string Page(const std::string& path) {
    const auto answer = HttpRequest(*netns_, "127.0.0.1", kPagesPort, path);
    return answer.ok() ? answer->body : std::string(answer.status().message());
  }
  absl::Status UntilMetric(const std::string& name, uint64_t value) {
    const std::string line = absl::StrCat("\nsvcmap_etcd_", name, " ", value, "\n");
    return Eventually(line, [&] { return absl::StrContains(Page("/metrics"), line); });
  }
  uint64_t ElementsWritten() {
    const auto status = agent_->GetStatus();
    return status.ok() ? status->elements_written() : UINT64_MAX;
  }

  std::optional<NetNs> netns_;
  std::optional<TemporaryFolder> folder_;
  std::unique_ptr<EtcdServer> etcd_;
  std::optional<EtcdWriter> writer_;
  std::unique_ptr<TcpProxy> proxy_;
  std::unique_ptr<Agent> agent_;
  std::unique_ptr<ChildProcess> source_;
  std::string prefix_ = kEtcdPrefix;
  std::string etcd_url_ = absl::StrCat("http://127.0.0.1:", kEtcdPort);  // For Fleet.
  Objects objects_;  // The objects of the writer.
};

TEST_F(EtcdTest, ASnapshotAndThenTheChanges) {
  for (int part = 0; part < 20; ++part) {
    Objects objects;
    for (int n = 40 * part; n < 40 * (part + 1); ++n) objects.push_back(Web(n, Ip(n)));
    ASSERT_OK(Put(objects));
  }
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  ASSERT_OK(UntilMetric("agent_synced", 1));
  EXPECT_EQ(Page("/healthz"), "ok");
  ASSERT_OK(Put({Web(0, "10.96.99.1"), Web(1000, "10.96.99.2")}));
  ASSERT_OK(Remove({WebKey(1)}));
  ASSERT_OK(Put({ANode(kAgentNode).InternalIp("192.168.77.1").Zone("z")}));
  ASSERT_OK(UntilSynced());
  ASSERT_OK(writer_->Write({}));  // The heartbeat changes no object.
  EXPECT_OK(UntilMetric("acknowledged_seq", writer_->seq()));
  EXPECT_OK(UntilMetric("lists_total", 1));
  EXPECT_OK(agent_->CheckServing());
  EXPECT_OK(StopSource());
}

TEST_F(EtcdTest, ATransactionIsOneBatch) {
  ASSERT_OK(Put({Web(0, Ip(0))}));
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  ASSERT_OK(UntilMetric("agent_synced", 1));
  ASSERT_OK(UntilMetric("batches_total", 2));  // The snapshot: one batch and its end.
  // etcd splits responses of more than 512 kB into fragments. A label that svcmapd does not use
  // makes the values large.
  Objects slices;
  EtcdWriter::Values values;
  for (int n = 0; n < 120; ++n) {
    slices.push_back(Slice(n, "10.244.2.1"));
    v1::Object large = slices.back();
    auto& labels = *large.mutable_endpoint_slice()->mutable_metadata()->mutable_labels();
    labels["example.com/large"] = std::string(10'000, 'x');
    values.emplace_back(EtcdKey(large), EtcdValue(large));
  }
  objects_.insert(objects_.end(), slices.begin(), slices.end());
  ASSERT_OK(writer_->Write(values));
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("acknowledged_seq", writer_->seq()));
  EXPECT_OK(UntilMetric("batches_total", 3));
}

TEST_F(EtcdTest, ChangesDuringACompactionAreFound) {
  ASSERT_OK(Put(Webs(30)));
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  proxy_->Refuse(true);
  ASSERT_TRUE(Logged("reading from etcd failed"));
  ASSERT_OK(Remove({WebKey(1), SliceKey(1)}));
  ASSERT_OK(Put({Web(2, "10.96.99.2"), Web(100, "10.96.99.3")}));
  ASSERT_OK(writer_->Compact());
  proxy_->Refuse(false);
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("expired_total", 1));
  ASSERT_OK(Put({Web(3, "10.96.99.4")}));
  EXPECT_OK(UntilSynced());
}

TEST_F(EtcdTest, ManyMissedTransactionsAreListedAndFewAreWatched) {
  ASSERT_OK(Put(Webs(30)));
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  for (const int missed : {100, 101}) {
    const std::string before = source_->err();
    proxy_->Refuse(true);
    ASSERT_OK(Eventually("a failure", [&] {
      return absl::StrContains(source_->err().substr(before.size()), "reading from etcd failed");
    }));
    for (int i = 1; i < missed; ++i) ASSERT_OK(Put({Web(1, Ip(1000 + i))}));
    ASSERT_OK(Remove({WebKey(2)}));
    proxy_->Refuse(false);
    ASSERT_OK(UntilSynced());
    EXPECT_OK(UntilMetric("lists_total", missed == 100 ? 1 : 2));
    ASSERT_OK(Put({Web(2, Ip(2))}));
    ASSERT_OK(UntilSynced());
  }
}

TEST_F(EtcdTest, ARestoredBackupReplacesTheState) {
  const std::string backup = folder_->path() + "/backup";
  ASSERT_OK(Put(Webs(30)));
  ASSERT_OK(etcd_->SaveBackup(backup));
  const Objects saved = objects_;
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  ASSERT_OK(Put({Web(1, "10.96.99.1"), Web(100, "10.96.99.2")}));
  ASSERT_OK(Remove({WebKey(2)}));
  ASSERT_OK(UntilSynced());

  // The source connects before the writer has written.
  ASSERT_OK(etcd_->RestoreBackup(backup));
  objects_ = saved;
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("expired_total", 1));  // The saved revision does not exist.

  ASSERT_OK(writer_->Adopt());
  ASSERT_OK(Put({Web(3, "10.96.99.3")}));
  ASSERT_OK(Put({Web(4, "10.96.99.4")}));
  ASSERT_OK(UntilSynced());

  // The source connects when the restored etcd has more revisions than the source.
  proxy_->Refuse(true);
  ASSERT_OK(etcd_->RestoreBackup(backup));
  objects_ = saved;
  ASSERT_OK(writer_->Adopt());
  for (int i = 0; i < 20; ++i) ASSERT_OK(Put({Web(5, Ip(1000 + i))}));
  proxy_->Refuse(false);
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("histories_total", 1));
  EXPECT_THAT(source_->err(), HasSubstr("etcd has another history, listing all objects"));
}

TEST_F(EtcdTest, ADeadWatchIsDetectedAfterTheSilence) {
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSource({"--silence=2"}));
  ASSERT_OK(UntilSynced());
  ASSERT_OK(UntilMetric("watches_total", 1));
  proxy_->SwallowExisting();
  ASSERT_OK(Put({Web(1, "10.96.99.1")}));
  ASSERT_OK(Remove({WebKey(2)}));
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("gaps_total", 1));
  EXPECT_THAT(source_->err(), HasSubstr("the watch has lost transactions"));

  // A writer that is stopped loses nothing, so nothing is listed.
  ASSERT_TRUE(Logged("no transaction for 2s, but none is missing"));
  EXPECT_OK(UntilMetric("lists_total", 2));
  ASSERT_OK(Put({Web(2, Ip(2))}));
  EXPECT_OK(UntilSynced());
}

TEST_F(EtcdTest, ValuesThatCannotBeUsedAreNamed) {
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  ASSERT_OK(writer_->Write({{WebKey(1), "{\"kind\":"},
                            {WebKey(4), EtcdValue(Web(5, Ip(5)))},
                            {"/state/colour", "red"},
                            {WebKey(2), R"({"apiVersion":"v1","kind":"Service","metadata":)"
                                        R"({"namespace":"shop","name":"s2"},"spec":{"clusterIP":)"
                                        R"("10.96.99.2","ports":[{"name":"tcp","port":80}]}})"}}));
  // The values that can be used are applied, and the earlier versions of the others stay.
  EXPECT_OK(Eventually("the new address of shop/s2", [&] {
    return ClusterIps() == std::vector<std::string>{Ip(0), Ip(1), "10.96.99.2"};
  }));
  EXPECT_OK(UntilMetric("rejected_keys", 3));
  EXPECT_THAT(source_->err(), HasSubstr(absl::StrCat("key=", kEtcdPrefix, WebKey(1), " error=")));
  EXPECT_THAT(source_->err(), HasSubstr("the object is \\\"shop/s5\\\": must be the object of"));
  EXPECT_THAT(source_->err(), HasSubstr("/state/colour error=\"unknown key\""));
}

TEST_F(EtcdTest, RestartsWriteNoElements) {
  ASSERT_OK(Put(Webs(50)));
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  ASSERT_OK(UntilMetric("agent_synced", 1));
  ASSERT_OK(agent_->WaitUntilSaved());
  ASSERT_OK(agent_->Stop());
  agent_.reset();
  ASSERT_OK(Eventually("the end of the stream", [&] {
    return absl::StrContains(Page("/metrics"), "svcmap_etcd_agent_connected 0");
  }));
  ASSERT_OK(StartAgent());
  ASSERT_OK(UntilMetric("agent_synced", 1));
  ASSERT_OK(UntilSynced());
  EXPECT_EQ(ElementsWritten(), 0u);

  ASSERT_OK(StopSource());
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilMetric("agent_synced", 1));
  EXPECT_EQ(ElementsWritten(), 0u);

  ASSERT_OK(etcd_->Stop());
  ASSERT_TRUE(Logged("reading from etcd failed"));
  ASSERT_OK(etcd_->StartAgain());
  ASSERT_OK(writer_->Write({}));
  ASSERT_OK(UntilMetric("acknowledged_seq", writer_->seq()));
  EXPECT_EQ(ElementsWritten(), 0u);
  EXPECT_OK(UntilMetric("lists_total", 1));
}

TEST_F(EtcdTest, AListThatIsSuddenlySmallIsHeld) {
  ASSERT_OK(Put(Webs(30)));
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  proxy_->Refuse(true);
  ASSERT_TRUE(Logged("reading from etcd failed"));
  std::vector<std::string> keys;
  for (int n = 1; n < 30; ++n) keys.push_back(WebKey(n));
  const Objects before = objects_;
  ASSERT_OK(Remove(keys));
  ASSERT_OK(writer_->Compact());  // Otherwise, the watch delivers the removals of the writer.
  proxy_->Refuse(false);
  ASSERT_OK(UntilMetric("held", 1));
  EXPECT_THAT(Page("/healthz"), HasSubstr("svcmapd holds the removals of the snapshot: 29 of 30"));
  ASSERT_OK_AND_ASSIGN(const Objects stored, agent_->List());
  EXPECT_EQ(Encoded(stored), Encoded(before));
  ASSERT_OK(RunOk(
      {.argv = {SVCMAP_BIN_DIR "/svcmapctl", "--address", AgentAddress(), "accept-snapshot"}}));
  ASSERT_OK(UntilSynced());
  ASSERT_OK(Put({Web(40, Ip(40))}));
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("held", 0));
  EXPECT_EQ(Page("/healthz"), "ok");
}

TEST_F(EtcdTest, NothingOfADeposedWriterIsApplied) {
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  EtcdWriter next(etcd_->socket(), /*epoch=*/2);
  ASSERT_OK(next.Adopt());
  ASSERT_OK(next.Put({Web(1, "10.96.99.1")}));
  EXPECT_TRUE(absl::IsAborted(writer_->Put({Web(1, "10.96.99.9"), Web(2, "10.96.99.9")})));
  ASSERT_OK(next.Put({Web(3, "10.96.99.3")}));
  std::erase_if(objects_, [](const auto& object) { return EtcdKey(object) == WebKey(1); });
  objects_.insert(objects_.end(), {Web(1, "10.96.99.1"), Web(3, "10.96.99.3")});
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("epoch", 2));

  // A change by hand has no head.
  ASSERT_OK(next.WriteWithoutHead({{WebKey(3), EtcdValue(Web(3, "10.96.99.4"))}}));
  objects_.back() = Web(3, "10.96.99.4");
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("foreign_total", 1));
  EXPECT_OK(UntilMetric("lists_total", 1));
}

TEST_F(EtcdTest, AnUnreachableEndpointIsSkipped) {
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSource({absl::StrCat("--etcd-endpoints=http://127.0.0.1:1,http://127.0.0.1:",
                                      kProxyPort, ",http://127.0.0.1:", kEtcdPort)}));
  ASSERT_OK(UntilSynced());
  ASSERT_OK(UntilMetric("agent_synced", 1));
  proxy_->Refuse(true);
  ASSERT_OK(Put({Web(1, "10.96.99.1")}));
  EXPECT_OK(UntilSynced());
}

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
  write("node", ca.Issue("node", "IP:127.0.0.1"));
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
  const auto explain = [&](const std::string& user) {
    return fleet({"explain", kAgentNode, Ip(1) + ":80", "--from", "node", "--tls-ca",
                  path + "ca.crt", "--tls-cert", path + user + ".crt", "--tls-key",
                  path + user + ".key"});
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

// A browser is simulated by curl.
TEST_F(EtcdTest, AFleetIsServedToBrowsers) {
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
  ASSERT_OK_AND_ASSIGN(
      const auto server,
      ChildProcess::Start({.argv = {SVCMAP_BIN_DIR "/svcmapctl", "fleet", "serve", "--prefix",
                                    prefix_, "--status-prefix", kStatusPrefix, "--etcd-endpoints",
                                    etcd_url_, "--listen", "127.0.0.1:10261"},
                           .netns = &*netns_}));
  ASSERT_TRUE(server->WaitForOutput("serving http://127.0.0.1:10261/\n", kHangLimit))
      << server->err();
  const auto curl = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> argv = {"curl", "-s", "-N"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return ChildProcess::Start({.argv = std::move(argv), .netns = &*netns_});
  };
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

TEST_F(EtcdTest, ManifestsAreApplied) {
  const std::string node = api::ManifestYaml(Node());
  const auto manifest = [&](const Objects& objects) {
    return api::ManifestYaml(objects) + "---\n" + node;
  };
  ASSERT_OK_AND_ASSIGN(const CommandResult planned, FleetApply(manifest(Webs(1)), {"--dry-run"}));
  EXPECT_TRUE(planned.exit.ok()) << planned.err;
  EXPECT_EQ(planned.out, absl::StrCat("node/n1 unchanged (dry run)\n"
                                      "endpointslice/shop/s0 created (dry run)\n"
                                      "service/shop/s0 created (dry run)\n"
                                      "seq ",
                                      writer_->seq(), ", 2 changes in 1 transaction (dry run)\n"));
  EXPECT_EQ(RevisionOf(WebKey(0)), 0);

  // Labels that svcmapd does not use are not written.
  Objects objects = Webs(1);
  (*objects[0].mutable_service()->mutable_metadata()->mutable_labels())["app"] = "web";
  ASSERT_OK_AND_ASSIGN(const CommandResult created, FleetApply(manifest(objects)));
  EXPECT_TRUE(created.exit.ok()) << created.err;
  EXPECT_EQ(created.out, absl::StrCat("node/n1 unchanged\nendpointslice/shop/s0 created\n"
                                      "service/shop/s0 created\nseq ",
                                      writer_->seq() + 1, ", 2 changes in 1 transaction\n"));
  objects_ = Webs(1);
  objects_.push_back(Node().front());
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  const int64_t head = RevisionOf("/state/head");
  EXPECT_EQ(RevisionOf(WebKey(0)), head);
  ASSERT_OK_AND_ASSIGN(const CommandResult repeated, FleetApply(manifest(Webs(1)), {"--prune"}));
  EXPECT_THAT(repeated.out, HasSubstr(", no changes\n"));
  EXPECT_EQ(RevisionOf("/state/head"), head);

  // Another writer with an earlier head fails, and the epoch stays.
  EXPECT_EQ(writer_->Put(Webs(1)).code(), absl::StatusCode::kAborted);
  ASSERT_OK(writer_->Adopt());
  ASSERT_OK(Put({Web(1, Ip(1)), Slice(1, "10.244.2.2")}));
  const Objects next = {Web(0, Ip(7))};
  ASSERT_OK_AND_ASSIGN(const CommandResult pruned, FleetApply(manifest(next), {"--prune"}));
  EXPECT_TRUE(pruned.exit.ok()) << pruned.err;
  EXPECT_EQ(pruned.out, absl::StrCat("node/n1 unchanged\nservice/shop/s0 configured\n"
                                     "endpointslice/shop/s0 pruned\nservice/shop/s1 pruned\n"
                                     "endpointslice/shop/s1 pruned\nseq ",
                                     writer_->seq() + 1, ", 4 changes in 1 transaction\n"));
  objects_ = {next[0], Node().front()};
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("acknowledged_seq", writer_->seq() + 1));
  EXPECT_OK(UntilMetric("epoch", 1));
  EXPECT_OK(UntilMetric("gaps_total", 0));
  EXPECT_OK(UntilMetric("rejected_keys", 0));
}

TEST_F(EtcdTest, ManifestsOfManyObjectsAreAppliedInSeveralTransactions) {
  // 200 slices of one Service do not fit into a transaction.
  Objects objects = Webs(150);
  for (int n = 0; n < 200; ++n) {
    objects.push_back(ASlice("shop/s0")
                          .Named(absl::StrCat("s0-", n))
                          .Endpoint(absl::StrCat("10.244.3.", n), "n2")
                          .Port("tcp", 8080));
  }
  ASSERT_OK(StartSource());
  ASSERT_OK_AND_ASSIGN(const CommandResult created, FleetApply(api::ManifestYaml(objects)));
  ASSERT_TRUE(created.exit.ok()) << created.err;
  EXPECT_THAT(created.out, HasSubstr(absl::StrCat("\nseq ", writer_->seq() + 5,
                                                  ", 500 changes in 5 transactions\n")));
  for (const v1::Object& object : objects) objects_.push_back(object);
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("gaps_total", 0));
  EXPECT_LT(RevisionOf("/state/endpointslices/shop/s0-0"), RevisionOf(WebKey(0)));
  for (const int n : {1, 50, 149}) EXPECT_EQ(RevisionOf(SliceKey(n)), RevisionOf(WebKey(n))) << n;

  // Most objects are not removed without --allow-empty, and endpoints are removed last.
  const std::string one = api::ManifestYaml({Web(149, Ip(149))});
  const int64_t head = RevisionOf("/state/head");
  ASSERT_OK_AND_ASSIGN(const CommandResult held, FleetApply(one, {"--prune"}));
  EXPECT_EQ(held.exit.code, 1);
  EXPECT_THAT(held.err, HasSubstr("nothing was written, because it would delete 149 of 150 "
                                  "services, 350 of 350 endpointslices; use --allow-empty"));
  EXPECT_EQ(RevisionOf("/state/head"), head);
  ASSERT_OK_AND_ASSIGN(const CommandResult pruned, FleetApply(one, {"--prune", "--allow-empty"}));
  EXPECT_TRUE(pruned.exit.ok()) << pruned.err;
  EXPECT_THAT(pruned.out, HasSubstr("\nservice/shop/s0 pruned\nendpointslice/shop/s0 pruned\n"));
  objects_ = {Web(149, Ip(149))};
  ASSERT_OK(UntilSynced());
}

// An endpoint that forwards transactions to etcd.
class FaultyEndpoint : public etcdserverpb::KV::Service {
 public:
  FaultyEndpoint(const NetNs& netns, const std::string& etcd_socket)
      : etcd_(etcdserverpb::KV::NewStub(
            grpc::CreateChannel("unix:" + etcd_socket, grpc::InsecureChannelCredentials()))) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", kFaultyPort),
                             grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = netns.Run([&] { return builder.BuildAndStart(); });
  }

  grpc::Status Txn(grpc::ServerContext*, const etcdserverpb::TxnRequest* request,
                   etcdserverpb::TxnResponse* response) override {
    const bool writes = request->compare_size() > 0;
    if (writes && before_write) before_write();
    grpc::ClientContext context;
    const grpc::Status status = etcd_->Txn(&context, *request, response);
    if (!writes || lost_answers == 0) return status;
    --lost_answers;
    return {grpc::StatusCode::UNAVAILABLE, "answer lost"};
  }

  // Set before the requests.
  std::function<void()> before_write;
  std::atomic<int> lost_answers = 0;

 private:
  const std::unique_ptr<etcdserverpb::KV::Stub> etcd_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(EtcdTest, ATransactionOfManifestsIsAppliedOnceIfItsAnswerIsLost) {
  FaultyEndpoint faulty(*netns_, etcd_->socket());
  faulty.lost_answers = 1;
  const std::string url = absl::StrCat("http://127.0.0.1:", kFaultyPort);
  etcd_url_ = url + "," + url;
  ASSERT_OK_AND_ASSIGN(const CommandResult applied, FleetApply(api::ManifestYaml(Webs(1))));
  EXPECT_TRUE(applied.exit.ok()) << applied.err;
  EXPECT_THAT(applied.out, HasSubstr(absl::StrCat("seq ", writer_->seq() + 1, ", 2 changes in")));
  EXPECT_EQ(faulty.lost_answers, 0);
  ASSERT_OK(writer_->Adopt());
  EXPECT_EQ(RevisionOf(WebKey(0)), RevisionOf("/state/head"));

  // The answers of both endpoints are lost.
  faulty.lost_answers = 2;
  ASSERT_OK_AND_ASSIGN(const CommandResult unknown, FleetApply(api::ManifestYaml(Webs(2))));
  EXPECT_EQ(unknown.exit.code, 3);
  EXPECT_THAT(unknown.err, HasSubstr("error: etcd: 127.0.0.1:2377: answer lost\n"));
  EXPECT_THAT(unknown.err,
              HasSubstr("note: at least 0 of 2 changes were written; run the command"));
  ASSERT_OK_AND_ASSIGN(const CommandResult again, FleetApply(api::ManifestYaml(Webs(2))));
  EXPECT_THAT(again.out, HasSubstr(absl::StrCat("seq ", writer_->seq() + 1, ", no changes\n")));
}

TEST_F(EtcdTest, ManifestsAreNotAppliedAfterChangesOfAnotherWriter) {
  FaultyEndpoint faulty(*netns_, etcd_->socket());
  etcd_url_ = absl::StrCat("http://127.0.0.1:", kFaultyPort);
  const std::vector<std::function<void()>> changes = {
      [&] { EXPECT_OK(writer_->Write({})); },
      [&] {
        EXPECT_OK(etcd_->Control({"put", prefix_ + "/leader", "x"}));
      }};
  for (const std::function<void()>& change : changes) {
    faulty.before_write = change;
    ASSERT_OK_AND_ASSIGN(const CommandResult failed, FleetApply(api::ManifestYaml(Webs(1))));
    EXPECT_EQ(failed.exit.code, 4) << failed.out;
    EXPECT_THAT(failed.err, HasSubstr("another writer has written, or a Store was elected"));
    EXPECT_EQ(RevisionOf(WebKey(0)), 0);
  }
}

TEST_F(EtcdTest, ManifestsThatWouldDoHarmAreNotApplied) {
  ASSERT_OK(Put(Webs(1)));
  const int64_t head = RevisionOf("/state/head");
  const std::string good = api::ManifestYaml({Web(2, Ip(2))});
  Objects invalid = {Web(0, Ip(0)), Web(3, "10.96.0.300")};
  struct Case {
    std::string text;
    std::vector<std::string> flags;
    const char* error;
  };
  for (const Case& c : std::vector<Case>{
           {"", {"--prune"}, "the input contains no objects"},
           {"", {}, "no objects to apply; nothing was written"},
           {good + "---\nkind: [\n", {"--prune"}, "because a manifest cannot be read"},
           {good + "  colour: red\n", {"--strict"}, "because a field is unknown"},
           {api::ManifestYaml(invalid), {"--prune"}, "because an object is rejected"},
           {api::ManifestYaml({invalid[1]}),
            {},
            "fleet.yaml: document 1, line 1: Service shop/s3 "
            "rejected: spec.clusterIP: Invalid value: \"10.96.0.300\""}}) {
    ASSERT_OK_AND_ASSIGN(const CommandResult result, FleetApply(c.text, c.flags));
    EXPECT_EQ(result.exit.code, 1) << result.out;
    EXPECT_THAT(result.err, HasSubstr(c.error));
    EXPECT_EQ(RevisionOf("/state/head"), head) << c.error;
  }

  // A Store writes this key while it is elected.
  ASSERT_OK(etcd_->Control({"put", prefix_ + "/leader", R"({"name":"controller-1"})"}));
  ASSERT_OK_AND_ASSIGN(const CommandResult refused, FleetApply(good));
  EXPECT_EQ(refused.exit.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("/leader: a Store is the elected writer and replaces changes "
                                     "of other writers: \"{\\\"name\\\":\\\"controller-1\\\"}\"; "
                                     "nothing was written; use --force to write"));
  EXPECT_EQ(RevisionOf("/state/head"), head);
  ASSERT_OK_AND_ASSIGN(const CommandResult forced, FleetApply(good, {"--force"}));
  EXPECT_TRUE(forced.exit.ok()) << forced.err;
  EXPECT_GT(RevisionOf("/state/head"), head);
}

// Without a head, the prefix is wrong, or etcd is new.
TEST_F(EtcdTest, AnEmptyPrefixRemovesNothing) {
  ASSERT_OK(agent_->Apply(Webs(3)));
  prefix_ = "/other";
  ASSERT_OK(StartSource());
  ASSERT_TRUE(Logged("/other/state/head: the key does not exist"));
  EXPECT_THAT(Page("/healthz"),
              HasSubstr("objects not listed yet: /other/state/head: the key does not exist"));
  ASSERT_OK_AND_ASSIGN(const Objects stored, agent_->List());
  EXPECT_EQ(Encoded(stored), Encoded(Webs(3)));
}

// The common name of the certificate is the user in etcd. The files are read for each connection.
TEST_F(EtcdTest, CertificatesAreUsersAndCanBeReplaced) {
  const CertificateAuthority ca("ca");
  const auto write = [&](const std::string& name, const std::string& text) {
    const std::string path = folder_->path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  };
  const KeyPair server = ca.Issue("etcd", "IP:127.0.0.1");
  const auto use_client = [&](const std::string& user, std::chrono::seconds lasts) {
    const KeyPair client = ca.Issue(user, "DNS:" + user, lasts);
    write("client.crt", client.certificate);
    write("client.key", client.key);
  };
  ASSERT_OK(Put(Webs(3)));
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"role", "add", "node"},
           {"role", "grant-permission", "--prefix=true", "node", "read", "/svcmap/v1/test/state/"},
           {"role", "grant-permission", "node", "read", "/svcmap/v1/test/nodes/n1"},
           {"user", "add", "n1", "--no-password"},
           {"user", "grant-role", "n1", "node"},
           {"user", "add", "n2", "--no-password"},
           {"user", "add", "root:secret"},
           {"user", "grant-role", "root", "root"},
           {"auth", "enable"}}) {
    ASSERT_OK(etcd_->Control(command));
  }
  ASSERT_OK(etcd_->Stop());
  ASSERT_OK_AND_ASSIGN(
      etcd_, EtcdServer::Start(
                 *netns_, folder_->path(),
                 {"--cert-file=" + write("server.crt", server.certificate),
                  "--key-file=" + write("server.key", server.key),
                  "--trusted-ca-file=" + write("ca.crt", ca.certificate()), "--client-cert-auth"}));
  use_client("n2", 1h);
  const std::string path = folder_->path();
  ASSERT_OK(StartSource({absl::StrCat("--etcd-endpoints=https://127.0.0.1:", kProxyPort),
                         "--etcd-ca=" + path + "/ca.crt", "--etcd-cert=" + path + "/client.crt",
                         "--etcd-key=" + path + "/client.key"}));
  ASSERT_TRUE(Logged("permission denied")) << source_->err();
  use_client("n1", 1h);
  ASSERT_OK(UntilSynced());
  EXPECT_THAT(Page("/metrics"), HasSubstr("expiry_timestamp_seconds{file=\"etcd-cert\"}"));

  const std::string before = source_->err();
  use_client("n1", -1h);
  proxy_->Refuse(true);
  ASSERT_OK(Eventually("a failure", [&] {
    return absl::StrContains(source_->err().substr(before.size()), "reading from etcd failed");
  }));
  proxy_->Refuse(false);
  use_client("n1", 1h);
  ASSERT_OK(etcd_->Control(
      {"--user=root:secret", "put", kEtcdPrefix + WebKey(7), EtcdValue(Web(7, "10.96.99.7"))}));
  objects_.push_back(Web(7, "10.96.99.7"));
  EXPECT_OK(UntilSynced());
}

}  // namespace
}  // namespace svcmap::testing
