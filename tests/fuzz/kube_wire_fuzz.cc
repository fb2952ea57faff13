// Fuzzes the decoders for lists, statuses and watches from the Kubernetes API. The first byte
// selects the decoder (bits 0-1) and the resource (bits 2-3).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/kube/wire/decode.h"
#include "api/log/printable.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::kube {
namespace {

constexpr size_t kMaxWireLine = 2000;

void RequireWire(bool holds) {
  if (!holds) __builtin_trap();
}

void CheckUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = api::Utf8Length(text);
    RequireWire(length > 0);
    text.remove_prefix(length);
  }
}

void CheckLine(std::string_view text) {
  RequireWire(text.size() <= kMaxWireLine && text.find('\n') == std::string_view::npos);
  CheckUtf8(text);
}

void CheckError(const absl::Status& status) {
  RequireWire(status.code() == absl::StatusCode::kDataLoss ||
              status.code() == absl::StatusCode::kResourceExhausted);
  CheckLine(std::string(status.message()));
}

// Checks that all strings are valid UTF-8, because gRPC cannot send or parse invalid UTF-8.
void CheckItem(const Item& item) {
  v1::Change change;
  RequireWire(!item.key.empty() && change.ParseFromString(item.change));
}

std::string Shown(const WatchEvent& event) {
  return std::to_string(static_cast<int>(event.type)) + " " + event.item.key + " " +
         event.item.resource_version + " " + event.item.change + " " + event.status.message;
}

struct Watched {
  std::string events;
  std::string error;
};

Watched WatchInPieces(Resource resource, std::string_view bytes, size_t piece) {
  WatchDecoder decoder(resource);
  Watched watched;
  while (!bytes.empty() && watched.error.empty()) {
    std::vector<WatchEvent> events;
    const absl::Status status = decoder.Feed(bytes.substr(0, piece), events);
    bytes.remove_prefix(std::min(piece, bytes.size()));
    for (const WatchEvent& event : events) {
      watched.events += Shown(event);
      CheckLine(event.status.message);
      const bool named = event.type < WatchEvent::Type::kBookmark;
      if (named) CheckItem(event.item);
      RequireWire(named || event.item.key.empty());
      RequireWire(event.type == WatchEvent::Type::kError || !event.item.resource_version.empty());
    }
    if (status.ok()) continue;
    CheckError(status);
    watched.error = std::string(status.message());
  }
  return watched;
}

void CheckWatch(Resource resource, std::string_view bytes) {
  const Watched whole = WatchInPieces(resource, bytes, bytes.size());
  for (const size_t piece : {size_t{1}, size_t{7}}) {
    const Watched pieces = WatchInPieces(resource, bytes, piece);
    RequireWire(pieces.events == whole.events && pieces.error.empty() == whole.error.empty());
  }
}

void CheckList(Resource resource, std::string_view bytes) {
  const absl::StatusOr<ListPage> page = DecodeList(resource, bytes);
  if (!page.ok()) return CheckError(page.status());
  RequireWire(!page->resource_version.empty());
  for (const Item& item : page->items) CheckItem(item);
}

void CheckStatus(std::string_view bytes) {
  const ApiStatus status = DecodeStatus(bytes);
  CheckLine(status.message);
  CheckLine(status.reason);
  RequireWire(status.retry_after_seconds >= 0);
}

}  // namespace
}  // namespace svcmap::kube

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace svcmap::kube;
  if (size == 0 || size > 1 << 18) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Resource resource = kResources[data[0] >> 2 & 3];
  switch (data[0] & 3) {
    case 0:
      CheckStatus(bytes);
      break;
    case 1:
      CheckWatch(resource, bytes);
      break;
    default:
      CheckList(resource, bytes);
  }
  return 0;
}
