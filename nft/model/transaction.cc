#include "nft/model/transaction.h"

#include <algorithm>
#include <cassert>

namespace svcmap::nft {
namespace {

// In front of each element: verb and flags, family, set, lengths of key, data and comment.
constexpr size_t kHeaderSize = 5;
constexpr uint8_t kDeleteFlag = 1;
constexpr uint8_t kIntervalEndFlag = 2;
constexpr uint8_t kIpv6Flag = 4;

std::span<const uint8_t> Bytes(const char* data, size_t size) {
  return {reinterpret_cast<const uint8_t*>(data), size};
}

}  // namespace

void Transaction::Append(Verb verb, const ElementView& element) {
  assert(element.key.size() <= 255 && element.data.size() <= 255);
  const bool remove = verb == Verb::kDelete;
  const size_t comment_size = remove ? 0 : std::min(element.comment.size(), kMaxComment);
  const uint8_t header[kHeaderSize] = {
      static_cast<uint8_t>((remove ? kDeleteFlag : 0) |
                           (element.interval_end ? kIntervalEndFlag : 0) |
                           (element.set.family == Family::kIpv6 ? kIpv6Flag : 0)),
      element.set.set, static_cast<uint8_t>(element.key.size()),
      static_cast<uint8_t>(remove ? 0 : element.data.size()), static_cast<uint8_t>(comment_size)};
  buffer_.append(reinterpret_cast<const char*>(header), sizeof(header));
  buffer_.append(reinterpret_cast<const char*>(element.key.data()), header[2]);
  buffer_.append(reinterpret_cast<const char*>(element.data.data()), header[3]);
  buffer_.append(element.comment.data(), header[4]);
  ++count_;
  if (remove) ++deletions_;
}

void Transaction::AddElements(Transaction more) {
  if (buffer_.empty()) {
    buffer_ = std::move(more.buffer_);  // A million additions are not copied.
  } else {
    buffer_ += more.buffer_;
  }
  count_ += more.count_;
  deletions_ += more.deletions_;
}

size_t Transaction::Parse(size_t offset, Verb& verb, ElementView& view) const {
  const auto* header = reinterpret_cast<const uint8_t*>(buffer_.data() + offset);
  verb = (header[0] & kDeleteFlag) != 0 ? Verb::kDelete : Verb::kAdd;
  view.interval_end = (header[0] & kIntervalEndFlag) != 0;
  view.set = {(header[0] & kIpv6Flag) != 0 ? Family::kIpv6 : Family::kIpv4, header[1]};
  const char* position = buffer_.data() + offset + kHeaderSize;
  view.key = Bytes(position, header[2]);
  view.data = Bytes(position + header[2], header[3]);
  view.comment = {position + header[2] + header[3], header[4]};
  return offset + kHeaderSize + header[2] + header[3] + header[4];
}

}  // namespace svcmap::nft
