#include "proxy/conntrack/handshake_book.h"

#include <algorithm>

namespace svcmap::proxy {
namespace {

// An id alone is no proof, because the kernel derives it from the entry's place in memory.
bool IsSame(const nft::Flow& a, const nft::Flow& b) {
  return a.id == b.id && a.protocol == b.protocol && a.original == b.original && a.reply == b.reply;
}

}  // namespace

void HandshakeBook::Update(const HandshakeChanges& changes, Time now) {
  check_ |= changes.any;
  for (const auto& [service, address] : changes.added) {
    added_[address].push_back({service, now});
    order_.push_back({now, service, address});
  }
  while (!order_.empty() && (order_.size() > kMaxAddresses || order_.front().time + kNew <= now)) {
    const auto found = added_.find(order_.front().address);
    found->second.erase(found->second.begin());  // The additions of an address are in order, too.
    if (found->second.empty()) added_.erase(found);
    order_.pop_front();
  }
}

std::optional<HandshakeBook::Time> HandshakeBook::due_at() const {
  if (check_) return Time::min();
  if (!oldest_) return std::nullopt;
  return *oldest_ + delay_;
}

HandshakeBook::Round HandshakeBook::Take(Time now) {
  Round round;
  const std::optional<Time> due = due_at();
  if (!due || *due > now) return round;
  round.active_ = true;
  delay_ = std::exchange(check_, false) ? wait_ : std::min(2 * delay_, std::max(wait_, last_wait_));
  round.before_ = std::exchange(entries_, {});
  oldest_.reset();
  for (auto& [id, entry] : round.before_) {
    entry.old = entry.since + wait_ <= now;
    if (entry.old) round.old_.push_back(entry.flow);
  }
  return round;
}

bool HandshakeBook::Round::IsOld(const nft::Flow& flow) const {
  const auto found = before_.find(flow.id);
  return found != before_.end() && found->second.old && IsSame(found->second.flow, flow);
}

void HandshakeBook::Round::Record(const nft::Flow& flow, Time now) {
  if (after_.size() >= kMaxHandshakes) return;
  const auto found = before_.find(flow.id);
  const bool known = found != before_.end() && IsSame(found->second.flow, flow);
  after_[flow.id] = {flow, known ? found->second.since : now};
}

// A new pod can become an endpoint of several Services at about the same time. Then, the address is
// not reused.
bool HandshakeBook::IsReused(const nft::Flow& flow, ServiceHash service, Time now) const {
  const auto found = added_.find(flow.reply.source.address);
  if (flow.reply.source == flow.original.destination || found == added_.end()) return false;
  std::optional<Time> own, other;  // The last additions.
  for (const Addition& addition : found->second) {
    if (addition.time + kNew <= now) continue;
    (addition.service == service ? own : other) = addition.time;
  }
  return other && (!own || *own + wait_ <= *other);
}

void HandshakeBook::Finish(Round round) {
  if (!round.active_) return;
  entries_ = std::move(round.after_);
  for (const auto& [id, entry] : entries_)
    oldest_ = std::min(oldest_.value_or(entry.since), entry.since);
}

void HandshakeBook::Return(Round round) {
  if (!round.active_) return;
  check_ = true;
  round.after_ = std::move(round.before_);
  Finish(std::move(round));
}

}  // namespace svcmap::proxy
