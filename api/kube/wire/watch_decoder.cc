#include "absl/strings/str_cat.h"
#include "api/kube/wire/decode.h"

namespace svcmap::kube {

absl::Status WatchDecoder::Feed(std::string_view bytes, std::vector<WatchEvent>& events) {
  pending_ += bytes;
  std::string_view rest = pending_;
  while (true) {
    std::string_view frame;
    const absl::StatusOr<bool> cut = Cut(rest, frame);
    if (!cut.ok()) return cut.status();
    if (!*cut) break;
    absl::StatusOr<WatchEvent> event = DecodeEvent(resource_, frame);
    if (!event.ok()) return event.status();
    events.push_back(*std::move(event));
  }
  pending_.erase(0, pending_.size() - rest.size());
  return absl::OkStatus();
}

// An event has a prefix of four bytes with its length, in big-endian order.
absl::StatusOr<bool> WatchDecoder::Cut(std::string_view& rest, std::string_view& frame) const {
  if (rest.size() < 4) return false;
  size_t size = 0;
  for (const char byte : rest.substr(0, 4)) size = size << 8 | static_cast<unsigned char>(byte);
  if (size > kMaxObjectBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(std::string(ResourceName(resource_)),
                                                     ": an event is longer than ",
                                                     kMaxObjectBytes >> 20, " MiB"));
  }
  if (rest.size() - 4 < size) return false;
  frame = rest.substr(4, size);
  rest.remove_prefix(4 + size);
  return true;
}

}  // namespace svcmap::kube
