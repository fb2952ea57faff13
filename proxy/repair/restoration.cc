#include "proxy/repair/restoration.h"

#include <algorithm>
#include <utility>

namespace svcmap::proxy {
namespace {

// Collects rows, and commits them in parts.
class Parts {
 public:
  Parts(size_t max_elements, const std::function<bool(nft::Transaction)>& commit)
      : max_elements_(max_elements), commit_(commit) {}

  void Add(const nft::ElementView& element) {
    part_.Add(element);
    if (part_.element_count() >= max_elements_) Commit();
  }
  void Commit() {
    nft::Transaction part = std::exchange(part_, nft::Transaction());
    if (ok_ && !part.empty()) ok_ = commit_(std::move(part));
  }
  bool ok() const { return ok_; }

 private:
  const size_t max_elements_;
  const std::function<bool(nft::Transaction)>& commit_;
  nft::Transaction part_;
  bool ok_ = true;
};

// Adds the slots of endpoint sets without session affinity.
void AddSlots(const ServiceRows& service, bool first_slots, Parts& parts) {
  for (const PortRows& port : service.ports) {
    if (port.affinity) continue;
    const nft::SetRef map = SlotsOf(port);
    for (const EndpointSet* set : {&port.cluster, &port.local}) {
      const size_t size = set->slots.size();
      const size_t end = first_slots ? std::min<size_t>(size, 1) : size;
      for (size_t slot = first_slots ? 0 : 1; slot < end; ++slot) {
        parts.Add(
            EndpointRow(map, set->group, static_cast<uint32_t>(slot), set->slots[slot]).view());
      }
    }
  }
}

}  // namespace

bool CommitAppliedRows(const Applied& applied, size_t max_elements,
                       const std::function<bool(nft::Transaction)>& commit) {
  Parts parts(max_elements, commit);
  for (const Row& row : applied.node_rows()) parts.Add(row.view());
  for (const auto& [key, service] : applied.services()) {
    if (!parts.ok()) return false;
    AddSlots(service, /*first_slots=*/true, parts);
    for (const Row& row : OwnRows(key, service)) parts.Add(row.view());
  }
  for (const auto& [key, count] : applied.shared()) parts.Add(FromSharedKey(key));
  for (const auto& [key, service] : applied.services()) {
    if (!parts.ok()) return false;
    AddSlots(service, /*first_slots=*/false, parts);
  }
  parts.Commit();
  for (const Family family : kFamilies) parts.Add(applied.marker().ToRow(family).view());
  parts.Commit();
  return parts.ok();
}

}  // namespace svcmap::proxy
