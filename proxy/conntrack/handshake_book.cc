#include "proxy/conntrack/handshake_book.h"

#include <algorithm>
#include <utility>

namespace svcmap::proxy {

bool HandshakeBook::Update(const EndpointChanges& changes, Time now) {
  added_.Add(changes.added, now);
  added_.ForgetUntil(now - kNew);
  return changes.any && !std::exchange(check_, true);
}

std::optional<HandshakeBook::Time> HandshakeBook::due_at() const {
  if (check_) return started_ + wait_;
  if (entries_.empty()) return std::nullopt;
  const auto oldest =
      std::ranges::min_element(entries_, {}, [](const auto& entry) { return entry.second.since; });
  return oldest->second.since + delay_;
}

bool HandshakeBook::Start(Time now) {
  const std::optional<Time> due = due_at();
  if (!due || *due > now) return false;
  delay_ = std::exchange(check_, false) ? wait_ : std::min(2 * delay_, std::max(wait_, last_wait_));
  started_ = now;
  return true;
}

std::vector<nft::Flow> HandshakeBook::Old() const {
  std::vector<nft::Flow> old;
  for (const auto& [id, entry] : entries_) {
    if (entry.since + wait_ <= started_) old.push_back(entry.flow);
  }
  return old;
}

void HandshakeBook::Record(const nft::Flow& flow, Time now) {
  if (listed_.size() >= kMaxHandshakes) return;
  const auto found = entries_.find(flow.id);
  // An id alone is no proof, because the kernel derives it from the entry's place in memory.
  const bool known = found != entries_.end() && found->second.flow == flow;
  listed_[flow.id] = {flow, known ? found->second.since : now};
}

// A new pod can become an endpoint of several Services at about the same time. Then, the address is
// not reused.
bool HandshakeBook::IsReused(const nft::Flow& flow, ServiceHash service, Time now) const {
  const auto* additions = added_.Find(flow.reply.source.address);
  if (flow.reply.source == flow.original.destination || additions == nullptr) return false;
  std::optional<Time> own, other;  // The last additions.
  for (const auto& addition : *additions) {
    if (addition.time + kNew <= now) continue;
    (addition.service == service ? own : other) = addition.time;
  }
  return other && (!own || *own + wait_ <= *other);
}

void HandshakeBook::Finish() { entries_ = std::exchange(listed_, {}); }

void HandshakeBook::Return() {
  listed_.clear();
  check_ = true;
}

}  // namespace svcmap::proxy
