// Fixture of the tests with etcd: etcd, svcmapd, svcmap-etcd and a writer. All processes run in one
// namespace.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/agent.h"
#include "tests/support/etcd_server.h"
#include "tests/support/raw_http.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wait.h"

namespace svcmap::testing {

inline constexpr uint16_t kProxyPort = 2378;
inline constexpr uint16_t kPagesPort = 10259;
inline constexpr char kStatusPrefix[] = "/svcmap-status/v1/test";
inline const std::vector<std::string> kAgentFlags = {"--healthz-bind-address=",
                                                     "--metrics-bind-address="};

inline std::string Ip(int n) { return absl::StrCat("10.96.", n / 250, ".", 1 + n % 250); }

inline v1::Object Web(int n, const std::string& ip) {
  return AService(absl::StrCat("shop/s", n)).ClusterIp(ip).Port("tcp", 80);
}
inline v1::Object Slice(int n, const std::string& ip) {
  const std::string service = absl::StrCat("s", n);
  return ASlice("shop/" + service).Named(service).Endpoint(ip, "n2").Port("tcp", 8080);
}
inline std::string WebKey(int n) { return absl::StrCat("/state/services/shop/s", n); }
inline std::string SliceKey(int n) { return absl::StrCat("/state/endpointslices/shop/s", n); }

// Builds `count` Services with one endpoint each.
inline Objects Webs(int count) {
  Objects objects;
  for (int n = 0; n < count; ++n) {
    objects.push_back(Web(n, Ip(n)));
    objects.push_back(Slice(n, "10.244.2.1"));
  }
  return objects;
}

inline Objects Node() { return {ANode(kAgentNode).InternalIp("192.168.77.1")}; }

// Returns the serialized objects, sorted.
inline std::set<std::string> Encoded(const Objects& objects) {
  std::set<std::string> encoded;
  for (const v1::Object& object : objects) encoded.insert(EtcdKey(object) + EtcdValue(object));
  return encoded;
}

// etcd, the proxy, svcmapd and the writer are started by SetUp, and svcmap-etcd by StartSource.
class EtcdTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(NetNsAvailable());
    ASSERT_OK_AND_ASSIGN(NetNs netns, NetNs::Create());
    netns_.emplace(std::move(netns));
    ASSERT_OK_AND_ASSIGN(TemporaryFolder folder, TemporaryFolder::Make());
    folder_.emplace(std::move(folder));
    ASSERT_OK(StartEtcd());
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

  // Starts etcd and the writer.
  virtual absl::Status StartEtcd() {
    auto etcd = EtcdServer::Start(*netns_, folder_->path());
    if (!etcd.ok()) return etcd.status();
    etcd_ = *std::move(etcd);
    writer_.emplace(etcd_->socket(), /*epoch=*/1);
    return absl::OkStatus();
  }
  // Restarts etcd with other flags and the same data.
  absl::Status RestartEtcd(const std::vector<std::string>& flags) {
    if (absl::Status status = etcd_->Stop(); !status.ok()) return status;
    auto etcd = EtcdServer::Start(*netns_, folder_->path(), flags);
    if (!etcd.ok()) return etcd.status();
    etcd_ = *std::move(etcd);
    return absl::OkStatus();
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
    auto source = ChildProcess::Start(
        {.argv = std::move(argv), .netns = &*netns_, .env = source_environment_});
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

  // Sets the objects that svcmapd must have. Other objects stay.
  void Expect(const Objects& objects) {
    for (const v1::Object& object : objects) {
      std::erase_if(objects_, [&](const auto& old) { return EtcdKey(old) == EtcdKey(object); });
      objects_.push_back(object);
    }
  }
  // Writes the objects in one transaction.
  absl::Status Put(const Objects& objects) {
    Expect(objects);
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
  // Runs `svcmapctl fleet wait`, after which the node has written its status.
  absl::StatusOr<CommandResult> FleetWait(uint64_t seq) {
    return Fleet(
        {"wait", "--seq", absl::StrCat(seq), "--window", "1s", "--status-prefix", kStatusPrefix});
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
  uint64_t Metric(const std::string& name) {
    const std::string page = Page("/metrics");
    const std::string start = absl::StrCat("\nsvcmap_etcd_", name, " ");
    const size_t at = page.find(start);
    return at == std::string::npos ? 0 : std::stoull(page.substr(at + start.size()));
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
  std::vector<std::string> source_environment_;  // For StartSource.
  std::string prefix_ = kEtcdPrefix;
  std::string etcd_url_ = absl::StrCat("http://127.0.0.1:", kEtcdPort);  // For Fleet.
  Objects objects_;  // The objects that svcmapd must have.
};

}  // namespace svcmap::testing
