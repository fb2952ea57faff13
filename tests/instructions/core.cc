#include "tests/instructions/core.h"
#include "tests/support/encoded.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>

namespace svcmap::instructions {
namespace {

using Mark = proxy::Batch::Mark;

constexpr int kServicesAtOnce = 500;
constexpr std::chrono::hours kNever{10000};

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

proxy::LoopOptions Options() {
  proxy::LoopOptions options;
  options.schedule.first_audit = kNever;
  return options;
}

proxy::NodePortAddresses AllAddresses() { return {.primary = false, .prefixes = {}}; }

}  // namespace

Core::Core(proxy::NodePortAddresses node_port_addresses)
    : reconciler_(kernel_,
                  {.node_name = bench::kThisNode, .node_port_addresses = node_port_addresses}),
      loop_(reconciler_, Options()),
      intake_(loop_, {.node_name = bench::kThisNode}) {
  loop_.Start(proxy::Received::kNothing);
}

Core::Core(std::vector<IpAddress> node_addresses) : Core(AllAddresses()) {
  loop_.SetInterfaceAddresses(std::move(node_addresses));
  Submit(Mark::kSnapshotBegin, {});
  Submit(Mark::kSnapshotEnd, {});
}

Core::Core(const bench::Cluster& cluster) : Core(proxy::NodePortAddresses()) {
  Commit(Mark::kSnapshotBegin, {});
  v1::Batch batch;
  for (const bench::ServicePort& port : cluster.ports()) {
    *batch.add_changes()->mutable_service() = ServiceMessage(port);
    for (v1::EndpointSlice& slice : SliceMessages(port)) {
      *batch.add_changes()->mutable_endpoint_slice() = std::move(slice);
    }
    if (batch.changes_size() < 2 * kServicesAtOnce && &port != &cluster.ports().back()) continue;
    Commit(Mark::kNone, testing::Encoded(batch));
    batch.Clear();
  }
  Commit(Mark::kSnapshotEnd, {});
}

proxy::BatchResult Core::Submit(Mark mark, const envelope::v1::Batch& batch) {
  std::promise<proxy::BatchResult> answer;
  const absl::Status status = intake_.Submit(
      {mark}, batch.changes_size(),
      [&](int i) { return api::ConvertChange(batch.changes(i), intake_.context()); },
      [&answer](proxy::BatchResult result) { answer.set_value(std::move(result)); }, {},
      [this] { return std::unique_lock(session_); });
  if (!status.ok()) Die(status.ToString());
  return answer.get_future().get();
}

void Core::Commit(Mark mark, const envelope::v1::Batch& batch) {
  const proxy::BatchResult result = Submit(mark, batch);
  if (!result.findings.empty()) Die(result.findings.front().ToString());
  if (mark == Mark::kNone && result.outcome != proxy::BatchResult::Outcome::kCommitted) {
    Die("nothing was committed for: " + batch.ShortDebugString());
  }
}

void Core::Push(const std::string& request) {
  envelope::v1::PushRequest parsed;
  if (!parsed.ParseFromString(request)) Die("not a PushRequest: " + request);
  Commit(Mark::kNone, parsed.batch());
}

}  // namespace svcmap::instructions
