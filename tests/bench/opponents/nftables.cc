// The compared implementation "nftables" loads the rules of kube-proxy 1.36's nftables mode (see
// nftables_rules.h) with `nft -f -`, as kube-proxy does. Each sync runs nft once with one
// transaction. Before a sync, a separate transaction deletes chains that have been stale for more
// than one second (S-341). The benchmark uses the nft binary of this machine. Debian 12 and
// kube-proxy's image contain the same nft version, 1.0.6.
//
// The compared implementations "nftables-single" and "nftables-shared" differ from "nftables" only
// in NftablesNode::layout: kPlainSingle, which is the layout of kube-proxy 1.37, and
// kSharedDispatch.
//
// The compared implementation "nftables-library" loads the transactions of "nftables" with
// libnftables in one long-running process, so that the cost of starting nft is not measured.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nft/base/unique_fd.h"
#include "tests/bench/opponents/opponent.h"
#include "tests/bench/opponents/tool_run.h"
#include "tests/bench/process_figures.h"
#include "tests/support/netns.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/topology.h"

namespace svcmap::bench {
namespace {

using NftablesClock = std::chrono::steady_clock;

// Executes one transaction.
using TransactionRunner = std::function<absl::StatusOr<ToolRun>(const std::string&)>;

class NftablesOpponent : public Opponent {
 public:
  // `memory` returns the memory of the permanent process.
  NftablesOpponent(NftablesLayout layout, TransactionRunner runner,
                   std::function<ProcessMemory()> memory)
      : layout_(layout), runner_(std::move(runner)), memory_(std::move(memory)) {}

  absl::StatusOr<Cost> Load(const Cluster& cluster) override {
    return Run({NftablesFullSync(Node(), cluster.ports())});
  }

  absl::StatusOr<Cost> Resync(const Cluster& cluster) override {
    return Run({TakeStaleChains(), NftablesResync(Node(), cluster.ports())});
  }

  absl::StatusOr<Cost> Change(const Cluster& cluster,
                              const std::vector<ClusterChange>& changes) override {
    const std::string deletion = TakeStaleChains();
    const NftablesUpdate update = NftablesChange(Node(), cluster.ports(), changes);
    absl::StatusOr<Cost> cost = Run({deletion, update.transaction});
    if (!cost.ok()) return cost;
    for (const std::string& chain : update.filled_chains) stale_.erase(chain);
    for (const std::string& chain : update.stale_chains) stale_[chain] = NftablesClock::now();
    return cost;
  }

  ProcessMemory Memory() const override { return memory_(); }

 private:
  // The node of tests/support/topology.h, with the cluster CIDR that svcmapd uses.
  NftablesNode Node() const {
    return {.ip = *IpAddress::Parse(testing::kNodeV4),
            .cluster_cidr = *IpPrefix::Parse(testing::kClusterCidrV4),
            .service_cidr = *IpPrefix::Parse(testing::kServiceCidrV4),
            .layout = layout_};
  }

  // Returns the transaction that deletes stale chains, or an empty string if no chain is stale.
  std::string TakeStaleChains() {
    const NftablesClock::time_point now = NftablesClock::now();
    std::vector<std::string> chains;
    for (auto chain = stale_.begin(); chain != stale_.end();) {
      const bool old = now - chain->second > std::chrono::seconds(1);
      if (old) chains.push_back(chain->first);
      chain = old ? stale_.erase(chain) : std::next(chain);
    }
    return NftablesDeleteChains(Family::kIpv4, chains);
  }

  // Runs the transactions in order, except for empty transactions.
  absl::StatusOr<Cost> Run(const std::vector<std::string>& transactions) {
    Cost cost{.seconds = 0, .cpu_seconds = 0};
    for (const std::string& transaction : transactions) {
      if (transaction.empty()) continue;
      const absl::StatusOr<ToolRun> run = runner_(transaction);
      if (!run.ok()) return run.status();
      cost.seconds += run->seconds;
      cost.cpu_seconds += run->cpu_seconds;
      cost.peak_rss_kib = std::max(cost.peak_rss_kib, run->peak_rss_kib);
    }
    return cost;
  }

  const NftablesLayout layout_;
  const TransactionRunner runner_;
  const std::function<ProcessMemory()> memory_;
  std::map<std::string, NftablesClock::time_point>
      stale_;  // Stale chains, and the time when each chain became stale.
};

constexpr std::chrono::seconds kLibraryStartTimeout{10};
// Maximum number of bytes of an error in a status.
constexpr size_t kLibraryErrors = 600;

absl::StatusOr<UniqueFd> ListenAt(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return absl::InvalidArgumentError(path);
  std::strcpy(address.sun_path, path.c_str());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.ok() ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(socket.get(), 1) != 0) {
    return absl::ErrnoToStatus(errno, "listen on " + path);
  }
  return socket;
}

// A long-running process that executes nft transactions with libnftables
// (tests/bench/libnftables_main.cc).
class LibraryProcess {
 public:
  // Starts `program` in `netns`. Returns FailedPrecondition if the program does not exist.
  static absl::StatusOr<std::unique_ptr<LibraryProcess>> Start(const std::string& program,
                                                               const testing::NetNs& netns,
                                                               std::chrono::seconds limit);

  // Executes a transaction. For a rejected transaction, returns the first lines of the error. After
  // the time limit, kills the process and returns DeadlineExceeded.
  absl::StatusOr<ToolRun> Run(const std::string& transaction);

  ProcessMemory Memory() const { return MemoryOf(process_->pid()); }

 private:
  using Clock = std::chrono::steady_clock;

  LibraryProcess(std::unique_ptr<testing::ChildProcess> process, UniqueFd socket,
                 std::chrono::seconds limit)
      : process_(std::move(process)), socket_(std::move(socket)), limit_(limit) {}
  std::unique_ptr<testing::ChildProcess> process_;
  UniqueFd socket_;
  const std::chrono::seconds limit_;
};

absl::StatusOr<std::unique_ptr<LibraryProcess>> LibraryProcess::Start(const std::string& program,
                                                                      const testing::NetNs& netns,
                                                                      std::chrono::seconds limit) {
  if (::access(program.c_str(), X_OK) != 0) {
    return absl::FailedPreconditionError("\"" + program +
                                         "\" is not executable; `cmake --build --preset bench` "
                                         "creates it, packages do not contain it");
  }
  const absl::StatusOr<testing::TemporaryFolder> folder = testing::TemporaryFolder::Make();
  if (!folder.ok()) return folder.status();
  const std::string path = folder->path() + "/socket";
  const absl::StatusOr<UniqueFd> listener = ListenAt(path);
  if (!listener.ok()) return listener.status();
  auto process = testing::ChildProcess::Start({.argv = {program, path}, .netns = &netns});
  if (!process.ok()) return process.status();
  pollfd waiting = {.fd = listener->get(), .events = POLLIN, .revents = 0};
  const int timeout = static_cast<int>(std::chrono::milliseconds(kLibraryStartTimeout).count());
  if (::poll(&waiting, 1, timeout) != 1) {
    return absl::UnavailableError(program + " does not connect: " + (*process)->err());
  }
  UniqueFd socket(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.ok()) return absl::ErrnoToStatus(errno, "accept");
  const timeval longest = {.tv_sec = limit.count(), .tv_usec = 0};
  for (const int option : {SO_SNDTIMEO, SO_RCVTIMEO}) {
    ::setsockopt(socket.get(), SOL_SOCKET, option, &longest, sizeof(longest));
  }
  return std::unique_ptr<LibraryProcess>(
      new LibraryProcess(*std::move(process), std::move(socket), limit));
}

absl::StatusOr<ToolRun> LibraryProcess::Run(const std::string& transaction) {
  const auto send = [this](const void* data, size_t size) {
    return ::send(socket_.get(), data, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
  };
  const auto receive = [this](void* data, size_t size) {
    return ::recv(socket_.get(), data, size, MSG_WAITALL) == static_cast<ssize_t>(size);
  };
  const uint64_t size = transaction.size();
  uint64_t header[2] = {};
  const double cpu = CpuSecondsOf(process_->pid());
  const Clock::time_point start = Clock::now();
  bool done = send(&size, sizeof(size)) && send(transaction.data(), size) &&
              receive(header, sizeof(header));
  std::string error(header[1], '\0');
  done = done && (error.empty() || receive(error.data(), error.size()));
  const std::chrono::duration<double> seconds = Clock::now() - start;
  if (!done && seconds >= limit_) {
    process_->Signal(SIGKILL).IgnoreError();
    return absl::DeadlineExceededError(
        absl::StrCat("libnftables takes longer than ", limit_.count(), " s"));
  }
  if (!done) return absl::UnavailableError("the process with libnftables: " + process_->err());
  if (header[0] != 0) {
    return absl::UnknownError("libnftables: " + error.substr(0, kLibraryErrors));
  }
  return ToolRun{.seconds = seconds.count(),
                 .cpu_seconds = CpuSecondsOf(process_->pid()) - cpu,
                 .peak_rss_kib = Memory().peak_kib};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Opponent>> MakeNftables(NftablesLayout layout,
                                                       const testing::NetNs& netns,
                                                       const OpponentSettings& settings) {
  const absl::StatusOr<ToolRun> works =
      RunTool({"nft", "list", "tables"}, "", netns, settings.time_limit);
  if (!works.ok()) {
    return absl::FailedPreconditionError("nft does not run: " +
                                         std::string(works.status().message()));
  }
  const auto run = [&netns, limit = settings.time_limit](const std::string& transaction) {
    return RunTool({"nft", "-f", "-"}, transaction, netns, limit);
  };
  return std::make_unique<NftablesOpponent>(layout, run, [] { return ProcessMemory(); });
}

absl::StatusOr<std::unique_ptr<Opponent>> MakeNftablesLibrary(const testing::NetNs& netns,
                                                              const OpponentSettings& settings) {
  absl::StatusOr<std::unique_ptr<LibraryProcess>> started =
      LibraryProcess::Start(settings.libnftables, netns, settings.time_limit);
  if (!started.ok()) return started.status();
  const std::shared_ptr<LibraryProcess> process = *std::move(started);
  return std::make_unique<NftablesOpponent>(
      NftablesLayout::kMapPerService,
      [process](const std::string& transaction) { return process->Run(transaction); },
      [process] { return process->Memory(); });
}

}  // namespace svcmap::bench
