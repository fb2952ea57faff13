// svcmap-change-instructions SERVICESxENDPOINTS: loads a cluster into the core and makes changes of
// each kind. Must be run with valgrind --tool=callgrind --instr-atstart=no. Writes one profile per
// kind of change. Each profile contains the kind of change and the number of instructions for
// kCounted changes.
#include <valgrind/callgrind.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/instructions/changes.h"
#include "tests/instructions/core.h"

namespace svcmap::instructions {
namespace {

// Number of uncounted changes at the start, for initializations and first allocations.
constexpr int kWarmUp = 8;
// Number of the first Service. The number is large, so that all Service names have the same length.
constexpr int kFirstService = 100'000;
constexpr size_t kStride = 17;

using MakeChange = std::function<bench::ClusterChange(size_t position)>;

class Counter {
 public:
  explicit Counter(const bench::ClusterShape& shape)
      : cluster_(shape, kFirstService), core_(cluster_), recreations_(core_.recreations()) {
    CALLGRIND_START_INSTRUMENTATION;
  }

  void Count(const char* kind, const MakeChange& make) {
    for (int i = 0; i < kWarmUp; ++i) core_.Push(Next(make));
    std::vector<std::string> requests;
    for (int i = 0; i < kCounted; ++i) requests.push_back(Next(make));
    CALLGRIND_ZERO_STATS;
    for (const std::string& request : requests) core_.Push(request);
    CALLGRIND_DUMP_STATS_AT(kind);
  }

  bench::Cluster& cluster() { return cluster_; }
  bool recreated() const { return core_.recreations() != recreations_; }

 private:
  std::string Next(const MakeChange& make) {
    position_ = (position_ + kStride) % static_cast<size_t>(cluster_.shape().services);
    v1::PushRequest request;
    request.mutable_batch()->set_number(++number_);
    for (v1::Change& message : make(position_).messages) {
      *request.mutable_batch()->add_changes() = std::move(message);
    }
    return request.SerializeAsString();
  }

  bench::Cluster cluster_;
  Core core_;
  const uint64_t recreations_;
  size_t position_ = 0;
  uint64_t number_ = 0;
};

// Makes the same change as ReplaceEndpoint, but as an endpoint delta.
bench::ClusterChange ReplaceByDelta(bench::Cluster& cluster, size_t position) {
  bench::ClusterChange change = cluster.ReplaceEndpoint(position);
  const v1::EndpointSlice slice = change.messages[0].endpoint_slice();
  v1::EndpointDelta& delta = *change.messages[0].mutable_endpoint_delta();
  delta.set_namespace_(slice.metadata().namespace_());
  delta.set_name(slice.metadata().name());
  delta.add_remove(change.before->endpoints[0].address.ip.ToString());
  *delta.add_upsert() = slice.endpoints(0);
  return change;
}

// Adds an external IP that no other Service uses.
bench::ClusterChange AddExternalIp(const bench::Cluster& cluster, size_t position, int number) {
  bench::ClusterChange change{.before = cluster.ports()[position],
                              .after = cluster.ports()[position]};
  change.after->external_ips = {*IpAddress::Parse(absl::StrCat("80.0.0.", number))};
  *change.messages.emplace_back().mutable_service() = ServiceMessage(*change.after);
  return change;
}

int Main(int argc, char** argv) {
  const auto shape = bench::ParseShape(argc == 2 ? argv[1] : "");
  if (!shape.ok()) {
    std::fprintf(stderr, "%s\n", shape.status().ToString().c_str());
    return 2;
  }
  Counter counter(*shape);
  bench::Cluster& cluster = counter.cluster();
  int externals = 0;
  counter.Count("endpoint replaced", [&](size_t at) { return cluster.ReplaceEndpoint(at); });
  counter.Count("the same by delta", [&](size_t at) { return ReplaceByDelta(cluster, at); });
  counter.Count("endpoint added", [&](size_t at) { return cluster.AddEndpoint(at); });
  counter.Count("endpoint removed", [&](size_t at) { return cluster.RemoveEndpoint(at); });
  counter.Count("Service added", [&](size_t) { return cluster.AddService(shape->endpoints); });
  counter.Count("Service removed", [&](size_t) { return cluster.RemoveLastService(); });
  counter.Count("Service changed",
                [&](size_t at) { return AddExternalIp(cluster, at, ++externals); });
  if (!counter.recreated()) return 0;
  std::fputs("the tables were written whole meanwhile: that is no single change\n", stderr);
  return 1;
}

}  // namespace
}  // namespace svcmap::instructions

int main(int argc, char** argv) { return svcmap::instructions::Main(argc, argv); }
