#include "tests/bench/opponents/opponent.h"

#include "tests/bench/opponents/svcmap.h"

namespace svcmap::bench {
namespace {

// Uses no proxy, and is the lower bound for packet latency.
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

const std::vector<std::string>& OpponentNames() {
  static const std::vector<std::string> kNames = {
      "direct",   "netlink",         "svcmap",          "iptables-legacy",  "iptables-nft",
      "nftables", "nftables-single", "nftables-shared", "nftables-library", "ipvs"};
  return kNames;
}

absl::StatusOr<std::unique_ptr<Opponent>> MakeOpponent(const std::string& name,
                                                       const testing::NetNs& netns,
                                                       const OpponentSettings& settings) {
  if (name == "direct") return std::make_unique<Direct>();
  if (name == "netlink") return MakeNetlink(netns, settings);
  if (name == "svcmap") return Svcmap::Start(netns, settings);
  if (name == "iptables-legacy") return MakeIptables(/*legacy=*/true, netns, settings);
  if (name == "iptables-nft") return MakeIptables(/*legacy=*/false, netns, settings);
  if (name == "nftables") return MakeNftables(NftablesLayout::kMapPerService, netns, settings);
  if (name == "nftables-single") return MakeNftables(NftablesLayout::kPlainSingle, netns, settings);
  if (name == "nftables-shared")
    return MakeNftables(NftablesLayout::kSharedDispatch, netns, settings);
  if (name == "ipvs") return MakeIpvs(netns, settings);
  if (name == "nftables-library") return MakeNftablesLibrary(netns, settings);
  return absl::NotFoundError("there is no opponent \"" + name + "\"");
}

}  // namespace svcmap::bench
