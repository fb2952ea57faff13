#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/kube/wire/decode.h"
#include "api/kube/wire/encodings.h"
#include "api/kube/wire/item.h"

namespace svcmap::kube {
namespace {

absl::Status EventTooLong(Resource resource) {
  return absl::ResourceExhaustedError(absl::StrCat(std::string(ResourceName(resource)),
                                                   ": an event is longer than ",
                                                   kMaxObjectBytes >> 20, " MiB"));
}

}  // namespace

absl::Status WatchDecoder::Feed(std::string_view bytes, std::vector<WatchEvent>& events) {
  pending_ += bytes;
  std::string_view rest = pending_;
  while (true) {
    std::string_view frame;
    absl::StatusOr<bool> cut =
        type_ == ContentType::kProtobuf ? CutProtobuf(rest, frame) : CutJson(rest, frame);
    if (!cut.ok()) return cut.status();
    if (!*cut) break;
    absl::StatusOr<WatchEvent> event = type_ == ContentType::kProtobuf
                                           ? ReadProtobufEvent(resource_, frame)
                                           : ReadJsonEvent(resource_, frame);
    if (!event.ok()) return event.status();
    // The next watch starts from this version. Without a version, deletions would be missed.
    if (event->type != WatchEvent::Type::kError && event->item.resource_version.empty()) {
      return WireError(resource_, "event: object.metadata.resourceVersion", "Required value");
    }
    events.push_back(*std::move(event));
  }
  pending_.erase(0, pending_.size() - rest.size());
  return absl::OkStatus();
}

// An event has a prefix of four bytes with its length, in big-endian order.
absl::StatusOr<bool> WatchDecoder::CutProtobuf(std::string_view& rest, std::string_view& frame) {
  if (rest.size() < 4) return false;
  size_t size = 0;
  for (const char byte : rest.substr(0, 4)) size = size << 8 | static_cast<unsigned char>(byte);
  if (size > kMaxObjectBytes) return EventTooLong(resource_);
  if (rest.size() - 4 < size) return false;
  frame = rest.substr(4, size);
  rest.remove_prefix(4 + size);
  return true;
}

// An event is a JSON object. Whitespace between objects is optional. Each byte is scanned only
// once, regardless of the number of pieces.
absl::StatusOr<bool> WatchDecoder::CutJson(std::string_view& rest, std::string_view& frame) {
  if (scanned_ == 0) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t\r\n"), rest.size()));
    if (!rest.empty() && rest[0] != '{') {
      return WireError(
          resource_, "event",
          absl::StrCat("expected a JSON object, received \"", OneLine(rest.substr(0, 16)), "\""));
    }
  }
  for (; scanned_ < rest.size(); ++scanned_) {
    const char c = rest[scanned_];
    if (scanned_ == kMaxObjectBytes) return EventTooLong(resource_);
    if (in_string_) {
      in_string_ = c != '"' || escaped_;
      escaped_ = c == '\\' && !escaped_;
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      if (--depth_ > 0) continue;
      frame = rest.substr(0, scanned_ + 1);
      rest.remove_prefix(frame.size());
      scanned_ = 0;
      return true;
    }
  }
  return false;
}

}  // namespace svcmap::kube
