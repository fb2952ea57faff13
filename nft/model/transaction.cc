#include "nft/model/transaction.h"

#include <algorithm>
#include <cassert>

namespace svcmap::nft {
namespace {

// Size of the header of each element: verb and flags, family, set, and the lengths of key, data and
// comment.
constexpr size_t kHeaderSize = 5;
constexpr size_t kInitialCapacity = 512;  // Sufficient for most transactions.
constexpr uint8_t kDeleteFlag = 1;
constexpr uint8_t kIntervalEndFlag = 2;
constexpr uint8_t kIpv6Flag = 4;
constexpr uint8_t kKeyEndFlag = 8;  // Flag of an element with a second key.

std::span<const uint8_t> Bytes(const char* data, size_t size) {
  return {reinterpret_cast<const uint8_t*>(data), size};
}

}  // namespace

void Transaction::Append(Verb verb, const ElementView& element) {
  assert(element.key.size() <= 255 && element.data.size() <= 255);
  assert(element.key_end.empty() || element.key_end.size() == element.key.size());
  const bool remove = verb == Verb::kDelete;
  const size_t comment_size = remove ? 0 : std::min(element.comment.size(), kMaxComment);
  const size_t data_size = remove ? 0 : element.data.size();
  const uint8_t header[kHeaderSize] = {
      static_cast<uint8_t>((remove ? kDeleteFlag : 0) |
                           (element.interval_end ? kIntervalEndFlag : 0) |
                           (element.set.family == Family::kIpv6 ? kIpv6Flag : 0) |
                           (element.key_end.empty() ? 0 : kKeyEndFlag)),
      element.set.set, static_cast<uint8_t>(element.key.size()), static_cast<uint8_t>(data_size),
      static_cast<uint8_t>(comment_size)};
  // Copies each part once into a small buffer, because appending each part to `buffer_` is slower.
  uint8_t bytes[kHeaderSize + 3 * 255 + kMaxComment];
  uint8_t* end = std::copy_n(header, kHeaderSize, bytes);
  for (const auto part : {element.key, element.key_end, element.data.first(data_size)}) {
    end = std::copy(part.begin(), part.end(), end);
  }
  end = std::copy_n(element.comment.data(), comment_size, end);
  if (buffer_.empty()) buffer_.reserve(kInitialCapacity);
  buffer_.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(end - bytes));
  ++count_;
}

void Transaction::AddElements(Transaction more) {
  if (buffer_.empty()) {
    // Moves the buffer to avoid copying up to a million elements.
    buffer_ = std::move(more.buffer_);
  } else {
    buffer_ += more.buffer_;
  }
  count_ += more.count_;
}

size_t Transaction::Parse(size_t offset, Verb& verb, ElementView& view) const {
  const auto* header = reinterpret_cast<const uint8_t*>(buffer_.data() + offset);
  verb = (header[0] & kDeleteFlag) != 0 ? Verb::kDelete : Verb::kAdd;
  view.interval_end = (header[0] & kIntervalEndFlag) != 0;
  view.set = {(header[0] & kIpv6Flag) != 0 ? Family::kIpv6 : Family::kIpv4, header[1]};
  const char* position = buffer_.data() + offset + kHeaderSize;
  const auto take = [&position](size_t size) {
    const char* start = position;
    position += size;
    return start;
  };
  view.key = Bytes(take(header[2]), header[2]);
  const size_t end_size = (header[0] & kKeyEndFlag) != 0 ? header[2] : 0;
  view.key_end = Bytes(take(end_size), end_size);
  view.data = Bytes(take(header[3]), header[3]);
  view.comment = {take(header[4]), header[4]};
  return static_cast<size_t>(position - buffer_.data());
}

}  // namespace svcmap::nft
