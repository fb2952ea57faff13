#include "proxy/state/snapshot_loss.h"

#include <string_view>

namespace svcmap::proxy {

std::string LossBeyond(const SnapshotLoss& loss, unsigned percent) {
  std::string text;
  const auto add = [&](const SnapshotLoss::Part& part, std::string_view name) {
    if (percent == 0 || part.before < kMinBoundedObjects) return;
    if (part.lost * 100 < part.before * percent) return;
    if (!text.empty()) text += ", ";
    text += std::to_string(part.lost) + " of " + std::to_string(part.before) + " ";
    text += name;
  };
  for (const Kind kind : {Kind::kService, Kind::kEndpointSlice, Kind::kNode, Kind::kServiceCidr}) {
    add(loss.kinds[Index(kind)], std::string(KindName(kind)) + "s");
  }
  add(loss.with_endpoints, "Services with endpoints");
  add(loss.previous_services, "Services with endpoints in the rules of the previous run");
  return text;
}

}  // namespace svcmap::proxy
