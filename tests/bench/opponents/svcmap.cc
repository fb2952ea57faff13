#include "tests/bench/opponents/svcmap.h"

#include <grpcpp/grpcpp.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "nft/base/status.h"
#include "svcmap/v1/control.grpc.pb.h"
#include "tests/support/environment.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::bench {
namespace {

// Calls `expire` once if an armed operation takes longer than the limit. Arm takes a lock, but does
// not wake a thread.
class TimeLimit {
 public:
  using Clock = std::chrono::steady_clock;

  TimeLimit(std::chrono::milliseconds limit, std::function<void()> expire)
      : limit_(limit), expire_(std::move(expire)), thread_([this] { Run(); }) {}
  ~TimeLimit() {
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void Arm() {
    std::lock_guard lock(mutex_);
    deadline_ = Clock::now() + limit_;
  }
  void Disarm() {
    std::lock_guard lock(mutex_);
    deadline_.reset();
  }
  bool expired() const {
    std::lock_guard lock(mutex_);
    return expired_;
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (!ended_ && !expired_) {
      // The deadlines of operations that are armed during this wait are later than `until`.
      const Clock::time_point until = deadline_.value_or(Clock::now() + limit_);
      changed_.wait_until(lock, until, [this] { return ended_; });
      expired_ = deadline_.has_value() && Clock::now() >= *deadline_;
    }
    if (expired_ && !ended_) expire_();
  }

  const std::chrono::milliseconds limit_;
  const std::function<void()> expire_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Clock::time_point> deadline_;
  bool ended_ = false;
  bool expired_ = false;
  std::thread thread_;
};

using testing::ChildProcess;

constexpr std::chrono::seconds kStartTimeout{10};
constexpr int kObjectsPerBatch = 1000;
constexpr std::chrono::milliseconds kCpuPoll{5};
constexpr std::chrono::milliseconds kCpuQuiet{50};
constexpr std::chrono::seconds kCpuSettles{2};
constexpr double kCpuNoise = 0.0005;  // CPU seconds that the timers of an idle process may use.

class SvcmapProcess final : public Svcmap {
 public:
  SvcmapProcess(testing::TemporaryFolder folder, std::chrono::seconds time_limit)
      : folder_(std::move(folder)), limit_(time_limit, [this] { context_.TryCancel(); }) {}

  ~SvcmapProcess() override {
    if (stream_) {
      context_.TryCancel();
      stream_->Finish();
    }
    if (process_) {
      static_cast<void>(process_->Signal(SIGTERM));
      process_->Wait(std::chrono::seconds(10));
    }
  }

  absl::Status Begin(const std::string& program, const testing::NetNs& netns) {
    auto process = ChildProcess::Start(
        {.argv = {program, "--listen", "unix://" + Socket(), "--node-name", kThisNode,
                  "--state-dir", folder_.path() + "/state", "--max-objects", "1000000",
                  "--cluster-cidr",
                  std::string(testing::kClusterCidrV4) + "," + testing::kClusterCidrV6},
         .netns = &netns});
    if (!process.ok()) return process.status();
    process_ = *std::move(process);
    channel_ = grpc::CreateChannel("unix:" + Socket(), grpc::InsecureChannelCredentials());
    if (!channel_->WaitForConnected(std::chrono::system_clock::now() +
                                    testing::OnThisMachine(kStartTimeout))) {
      return Broken("does not answer");
    }
    stub_ = v1::Control::NewStub(channel_);
    stream_ = stub_->Push(&context_);
    v1::PushRequest open;
    open.mutable_open()->set_name("svcmap-bench");
    open.mutable_open()->set_protocol_version(2);
    v1::PushResponse opened;
    if (!stream_->Write(open) || !stream_->Read(&opened) || !opened.has_opened()) {
      return Broken("does not open a stream");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Cost> Load(const Cluster& cluster) override {
    const double cpu = CpuSeconds();
    absl::StatusOr<Cost> cost = Snapshot(cluster);
    if (cost.ok()) cost->cpu_seconds = SettledCpuSeconds() - cpu;
    return cost;
  }
  absl::StatusOr<Cost> Resync(const Cluster& cluster) override { return Snapshot(cluster); }

  absl::StatusOr<Cost> Change(const Cluster&, const std::vector<ClusterChange>& changes) override {
    const uint64_t number = TakeNumber();
    return Measure({Message(number, changes)}, number);
  }

  uint64_t TakeNumber() override { return ++number_; }

  absl::Status Send(const v1::PushRequest& request) override {
    if (stream_->Write(request)) return absl::OkStatus();
    return Broken("takes no message");
  }

  absl::StatusOr<v1::Ack> Await(uint64_t number) override {
    limit_.Arm();
    absl::StatusOr<v1::Ack> ack = Read(number);
    limit_.Disarm();
    return ack;
  }

  ProcessMemory Memory() const override { return MemoryOf(process_->pid()); }
  double CpuSeconds() const override { return CpuSecondsOf(process_->pid()); }

 private:
  std::string Socket() const { return folder_.path() + "/svcmap.sock"; }

  // Waits until the CPU time has been constant for kCpuQuiet, but at most kCpuSettles, and returns
  // the CPU time. After the acknowledgement, svcmapd still writes the state file and releases
  // memory.
  double SettledCpuSeconds() const {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point deadline = Clock::now() + kCpuSettles;
    double settled = CpuSeconds();
    for (Clock::time_point since = Clock::now();
         Clock::now() < std::min(since + kCpuQuiet, deadline);) {
      std::this_thread::sleep_for(kCpuPoll);
      const double now = CpuSeconds();
      if (now <= settled + kCpuNoise) continue;
      settled = now;
      since = Clock::now();
    }
    return CpuSeconds();
  }

  absl::StatusOr<v1::Ack> Read(uint64_t number) {
    v1::PushResponse response;
    while (stream_->Read(&response)) {
      if (!response.has_ack()) continue;
      const v1::Ack& ack = response.ack();
      if (ack.outcome() == v1::FAILED) return absl::InternalError(ack.error());
      for (const v1::ObjectResult& result : ack.results()) {
        if (result.severity() != v1::WARNING) return absl::InternalError(result.message());
      }
      if (ack.number() >= number) return ack;
    }
    return Broken("acknowledges nothing");
  }

  absl::Status Broken(const std::string& how) const {
    if (limit_.expired())
      return absl::DeadlineExceededError("svcmapd took too long: " + process_->err());
    return absl::UnavailableError("svcmapd " + how + ": " + process_->err());
  }

  absl::StatusOr<Cost> Snapshot(const Cluster& cluster) {
    std::vector<v1::PushRequest> requests(1);
    requests.back().mutable_snapshot_begin();
    const uint64_t first = number_ + 1;
    v1::Batch* batch = nullptr;
    for (v1::Change& change : AllMessages(cluster)) {
      if (batch == nullptr || batch->changes_size() >= kObjectsPerBatch) {
        batch = requests.emplace_back().mutable_batch();
        batch->set_number(TakeNumber());
      }
      *batch->add_changes() = std::move(change);
    }
    v1::SnapshotEnd& end = *requests.emplace_back().mutable_snapshot_end();
    end.set_number(TakeNumber());
    end.set_accept_removals(true);
    absl::StatusOr<Cost> cost = Measure(requests, first);
    // Free the requests now, because malloc might otherwise consolidate free memory during a
    // measured change.
    requests = {};
    malloc_trim(0);
    return cost;
  }

  // Sends all batches, and concurrently reads the acknowledgements from number `first` to the
  // number of the last batch.
  absl::StatusOr<Cost> Measure(const std::vector<v1::PushRequest>& requests, uint64_t first) {
    const double cpu = CpuSeconds();
    Cost cost{.kernel_seconds = 0, .longest_commit_seconds = 0};
    limit_.Arm();
    const auto start = std::chrono::steady_clock::now();
    absl::Status sent;
    std::thread sender;
    const auto send = [&] {
      for (const v1::PushRequest& request : requests) {
        sent.Update(Send(request));
        if (!sent.ok()) return;
      }
    };
    // Send a single message on this thread, because creating a thread would cost as much as the
    // change.
    if (requests.size() == 1) {
      send();
    } else {
      sender = std::thread(send);
    }
    absl::Status answered;
    uint64_t revision = 0;
    for (uint64_t next = first; next <= number_; ++next) {
      const absl::StatusOr<v1::Ack> ack = Read(next);
      answered = ack.status();
      if (!ack.ok()) break;
      // Count each commit only once. Acks of batches in the same commit report the same revision.
      if (std::exchange(revision, ack->revision()) == ack->revision()) continue;
      cost.kernel_seconds += CommitSeconds(*ack);
      cost.longest_commit_seconds = std::max(cost.longest_commit_seconds, CommitSeconds(*ack));
    }
    cost.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    limit_.Disarm();
    // Cancel the call after an error, because the sender could otherwise block indefinitely.
    if (!answered.ok()) context_.TryCancel();
    if (sender.joinable()) sender.join();
    if (!answered.ok()) return answered;
    if (!sent.ok()) return sent;
    cost.cpu_seconds = CpuSeconds() - cpu;
    cost.peak_rss_kib = Memory().peak_kib;
    return cost;
  }

  testing::TemporaryFolder folder_;
  std::unique_ptr<ChildProcess> process_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Control::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::PushRequest, v1::PushResponse>> stream_;
  uint64_t number_ = 0;
  // Declared last, so that the time limit is destroyed before the call that the limit cancels.
  TimeLimit limit_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Svcmap>> Svcmap::Start(const testing::NetNs& netns,
                                                      const OpponentSettings& settings) {
  if (::access(settings.svcmapd.c_str(), X_OK) != 0) {
    return absl::FailedPreconditionError("\"" + settings.svcmapd +
                                         "\" is no program: give the path with --svcmapd");
  }
  absl::StatusOr<testing::TemporaryFolder> folder = testing::TemporaryFolder::Make();
  if (!folder.ok()) return folder.status();
  auto agent = std::make_unique<SvcmapProcess>(*std::move(folder), settings.time_limit);
  if (const absl::Status begun = agent->Begin(settings.svcmapd, netns); !begun.ok()) return begun;
  return agent;
}

double Svcmap::CommitSeconds(const v1::Ack& ack) {
  return static_cast<double>(ack.commit_duration().seconds()) + ack.commit_duration().nanos() / 1e9;
}

v1::PushRequest Svcmap::Message(uint64_t number, const std::vector<ClusterChange>& changes) {
  v1::PushRequest request;
  request.mutable_batch()->set_number(number);
  for (const ClusterChange& change : changes) {
    for (const v1::Change& message : change.messages) {
      *request.mutable_batch()->add_changes() = message;
    }
  }
  return request;
}

}  // namespace svcmap::bench
