// svcmap-bench-saved: measures the cost of saving the state. Measures how long it takes to append a
// commit, to open the state file after a restart and to rewrite the file. Uses the directory
// argv[1] or /tmp/svcmap-bench-saved. The benchmark deletes the directory at the start and at the
// end.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "proxy/saved/state_log.h"

namespace svcmap::bench {
namespace {

using Clock = std::chrono::steady_clock;
using proxy::Kind;
using proxy::StateLog;

constexpr uint32_t kEndpoints = 10;

double Milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

IpAddress Ip(uint8_t net, uint32_t host) {
  const uint8_t bytes[4] = {net, static_cast<uint8_t>(host >> 16), static_cast<uint8_t>(host >> 8),
                            static_cast<uint8_t>(host)};
  return *IpAddress::FromBytes(bytes);
}

std::string KeyOf(uint32_t service) { return "namespace-1/service-" + std::to_string(service); }

// Returns a message that has the size of a real object. The content of the message is arbitrary.
std::string ServiceMessage(uint32_t service) {
  return KeyOf(service) + std::string(150, static_cast<char>('a' + service % 26));
}
std::string SliceMessage(uint32_t service, uint32_t version) {
  return KeyOf(service) + std::to_string(version) +
         std::string(40 + 45 * kEndpoints, static_cast<char>('a' + version % 26));
}

// Returns the rows of a Service with all endpoints except endpoint `without`.
proxy::ServiceRows RowsOf(uint32_t service, uint32_t without) {
  proxy::ServiceRows rows{.cluster_ips = {Ip(10, service)}};
  proxy::PortRows port{.name = "http", .port = 80, .any = true};
  port.addresses = {{.address = Ip(10, service), .port = 80}};
  port.cluster.group = service + 1;
  for (uint32_t i = 0; i < kEndpoints; ++i) {
    if (i != without) port.cluster.slots.push_back({Ip(11, service * kEndpoints + i), 8080});
  }
  rows.ports.push_back(std::move(port));
  return rows;
}

class Bench {
 public:
  Bench(std::string folder, uint32_t services) : folder_(std::move(folder)), services_(services) {
    for (uint32_t i = 0; i < services; ++i) rows_.push_back(RowsOf(i, kEndpoints));
  }

  void Run() {
    std::printf("\n%u Services with %u endpoints\n", services_, kEndpoints);
    Open("open, no file");
    Load();
    Churn("append a commit of one Service", 20000);
    Restart("open");
    Restart("open");
    Rewrite();
    Restart("open, after a rewrite");
  }

 private:
  void Open(const char* what) {
    proxy::SavedState found;
    const std::clock_t cpu = std::clock();
    const auto start = Clock::now();
    auto log =
        StateLog::Open(folder_, proxy::PosixFiles(), &found, {.writer = "svcmap-bench-saved"});
    const auto took = Clock::now() - start;
    const double cpu_seconds = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
    if (!log.ok()) std::exit((std::fprintf(stderr, "%s\n", log.status().ToString().c_str()), 1));
    log_ = *std::move(log);
    std::printf("%-44s %9.2f ms  %.2f ms of CPU; %zu objects, %zu Services, %.1f MB\n", what,
                Milliseconds(took), cpu_seconds * 1000, found.objects.size(), found.services.size(),
                Megabytes());
  }
  double Megabytes() const { return static_cast<double>(log_->status().bytes) / 1e6; }

  void Restart(const char* what) {
    const auto start = Clock::now();
    log_.reset();
    std::printf("%-44s %9.2f ms\n", "stop", Milliseconds(Clock::now() - start));
    Open(what);
  }

  void PutObjects(const StateLog::PutObjectFn& put) const {
    for (uint32_t i = 0; i < services_; ++i) {
      put(Kind::kService, KeyOf(i), ServiceMessage(i), i);
      put(Kind::kEndpointSlice, KeyOf(i) + "-1", SliceMessage(i, 0), 0);
    }
  }
  proxy::SavedCommit Everything() const {
    proxy::SavedCommit commit{.marker = {1, ++generation_}, .whole = true};
    for (uint32_t i = 0; i < services_; ++i) commit.services.emplace_back(KeyOf(i), &rows_[i]);
    return commit;
  }

  void Load() {
    const auto start = Clock::now();
    PutObjects([this](Kind kind, const std::string& key, const std::string& message,
                      uint64_t first_seen) { log_->PutObject(kind, key, message, first_seen); });
    const auto objects = Clock::now();
    const proxy::SavedCommit commit = Everything();
    const auto made = Clock::now();
    log_->Begin(commit);
    log_->End(true, 1);
    log_->Flush();
    std::printf("%-44s %9.2f ms, and %.2f ms for the rows\n", "append all objects",
                Milliseconds(objects - start), Milliseconds(Clock::now() - made));
  }

  void Churn(const char* what, uint32_t commits) {
    std::vector<double> took;
    for (uint32_t i = 0; i < commits; ++i) {
      const uint32_t service = i * 7919 % services_;
      rows_[service] = RowsOf(service, i % kEndpoints);
      const std::string key = KeyOf(service), slice = key + "-1",
                        message = SliceMessage(service, i);
      const proxy::SavedCommit commit{.marker = {i, ++generation_},
                                      .services = {{key, &rows_[service]}}};
      const auto start = Clock::now();
      log_->PutObject(Kind::kEndpointSlice, slice, message, 0);
      log_->Begin(commit);
      log_->End(true, i);
      log_->Flush();
      took.push_back(Milliseconds(Clock::now() - start) * 1000);
    }
    std::sort(took.begin(), took.end());
    std::printf("%-44s %9.2f us  p99 %.2f us, worst %.0f us; %llu compactions\n", what,
                took[took.size() / 2], took[took.size() * 99 / 100], took.back(),
                static_cast<unsigned long long>(log_->status().compactions));
  }

  void Rewrite() {
    const proxy::SavedCommit commit = Everything();
    log_->Begin({});  // Call Begin twice, which is an error that disables the log.
    log_->Begin({});
    const auto start = Clock::now();
    log_->Rewrite([this](const StateLog::PutObjectFn& put) { PutObjects(put); }, &commit, 1);
    std::printf("%-44s %9.2f ms  %.1f MB\n", "everything to a new file",
                Milliseconds(Clock::now() - start), Megabytes());
  }

  const std::string folder_;
  const uint32_t services_;
  std::vector<proxy::ServiceRows> rows_;
  mutable uint64_t generation_ = 0;
  std::unique_ptr<StateLog> log_;
};

int Main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : "/tmp/svcmap-bench-saved";
  for (const uint32_t services : {1000, 10000, 100000}) {
    std::filesystem::remove_all(folder);
    Bench(folder, services).Run();
  }
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace svcmap::bench

int main(int argc, char** argv) { return svcmap::bench::Main(argc, argv); }
