#include "tests/bench/opponents/direct.h"

namespace svcmap::bench {
namespace {

class Direct final : public Opponent {
 public:
  absl::StatusOr<Cost> Load(const Cluster&) override { return Cost{.seconds = 0}; }
  absl::StatusOr<Cost> Change(const Cluster&, const std::vector<ClusterChange>&) override {
    return Cost{.seconds = 0};
  }
  absl::StatusOr<Cost> Resync(const Cluster&) override {
    return absl::UnimplementedError("nothing is programmed");
  }
  ProcessMemory Memory() const override { return {}; }
};

}  // namespace

std::unique_ptr<Opponent> MakeDirect() { return std::make_unique<Direct>(); }

}  // namespace svcmap::bench
