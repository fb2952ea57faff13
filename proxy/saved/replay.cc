#include "proxy/saved/replay.h"

#include <xxhash.h>

#include <random>

#include "proxy/saved/frames.h"
#include "proxy/saved/ledger.h"

namespace svcmap::proxy {
namespace {

// The Keep parameter of a Ledger that stores the values themselves.
struct Values {
  using Object = SavedState::Object;
  using Service = std::pair<std::string, ServiceRows>;
  using NodeRows = std::vector<Row>;
  using Tables = SavedTables;

  std::optional<Object> operator()(saved::v1::Object& record) {
    const std::optional<Kind> kind = KindFromNumber(record.kind());
    if (!kind) return std::nullopt;
    return Object{*kind, std::move(*record.mutable_key()), std::move(*record.mutable_message()),
                  record.first_seen()};
  }
  std::optional<Service> operator()(saved::v1::Service& record) {
    std::optional<ServiceRows> rows = FromMessage(record);
    if (!rows) return std::nullopt;
    return Service{std::move(*record.mutable_key()), *std::move(rows)};
  }
  std::optional<NodeRows> operator()(saved::v1::NodeRows& record) { return FromMessage(record); }
  std::optional<Tables> operator()(saved::v1::Tables& record) { return FromMessage(record); }
};

template <typename T>
std::vector<T> ToVector(Keyed<T>& keyed) {
  std::vector<T> values;
  values.reserve(keyed.size());
  keyed.ForEach([&](T& value) { values.push_back(std::move(value)); });
  keyed.Clear();
  return values;
}

SavedState::Attempt ToAttempt(Ledger<Values>::Attempt&& from) {
  SavedState::Attempt attempt{.marker = from.marker, .whole = from.whole};
  attempt.services.reserve(from.services.size());
  for (auto& part : from.services) attempt.services.push_back(std::move(part.service.value));
  if (from.node_rows) attempt.node_rows = std::move(from.node_rows->value);
  if (from.tables) attempt.tables = std::move(from.tables->value);
  return attempt;
}

SavedState ToState(Ledger<Values>& ledger) {
  SavedState state;
  state.objects = ToVector(ledger.objects());
  state.marker = ledger.marker();
  state.generation = ledger.generation();
  state.partial = ledger.partial();
  state.next_numbers = ledger.next_numbers();
  state.services = ToVector(ledger.services());
  if (ledger.node_rows()) state.node_rows = std::move(ledger.node_rows()->value);
  if (ledger.tables()) state.tables = std::move(ledger.tables()->value);
  if (ledger.attempt() && ledger.attempt()->asked) {
    state.attempt = ToAttempt(*std::move(ledger.attempt()));
  }
  return state;
}

}  // namespace

KeyDigest DigestOf(uint32_t kind, std::string_view key) {
  // Uses a random seed to prevent deliberate collisions.
  static const uint64_t seed = std::random_device()();
  const XXH128_hash_t hash = XXH3_128bits_withSeed(key.data(), key.size(), seed + kind);
  return {.low = hash.low64, .high = hash.high64};
}

absl::StatusOr<Replayed> Replay(File& file) {
  const absl::StatusOr<uint64_t> size = file.Size();
  if (!size.ok()) return size.status();
  const absl::StatusOr<FileHeader> header = ReadFileHeader(file);
  if (!header.ok()) return header.status();

  Ledger<Values> ledger;
  FrameReader reader(file, header->id, header->size, *size);
  saved::v1::Frame frame;  // Message object, reused for all frames to avoid allocations.
  uint64_t begin = reader.offset();
  while (const std::optional<std::string_view> message = reader.Next()) {
    absl::Status status = absl::OkStatus();
    if (!frame.ParseFromArray(message->data(), static_cast<int>(message->size()))) {
      status = absl::DataLossError("frame is not a valid message");
    } else {
      status = ledger.Apply(frame);
    }
    if (!status.ok()) {
      return absl::DataLossError("offset " + std::to_string(begin) + ": " +
                                 std::string(status.message()));
    }
    begin = reader.offset();
  }
  if (!reader.status().ok()) {
    if (!absl::IsDataLoss(reader.status())) return reader.status();
    const absl::StatusOr<bool> damaged = reader.WasSynced();
    if (!damaged.ok()) return damaged.status();
    if (*damaged) return reader.status();
  }
  Replayed replayed{.id = header->id,
                    .end = reader.offset(),
                    .torn = reader.offset() != *size,
                    .live_bytes = header->size + ledger.live_bytes()};
  replayed.state = ToState(ledger);
  replayed.state.saved = reader.written();
  return replayed;
}

}  // namespace svcmap::proxy
