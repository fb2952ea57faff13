#include "proxy/saved/compaction.h"

#include <algorithm>
#include <vector>

#include "proxy/saved/ledger.h"

namespace svcmap::proxy {
// Stores the ordinal of each record among all records of its kind in the file.
struct Ordinals {
  using Object = uint32_t;
  using Service = uint32_t;
  using NodeRows = uint32_t;
  using Tables = uint32_t;

  std::optional<uint32_t> operator()(const saved::v1::Object&) { return objects++; }
  std::optional<uint32_t> operator()(const saved::v1::Service&) { return services++; }
  std::optional<uint32_t> operator()(const saved::v1::NodeRows&) { return node_rows++; }
  std::optional<uint32_t> operator()(const saved::v1::Tables&) { return tables++; }

  uint32_t objects = 0, services = 0, node_rows = 0, tables = 0;
};

namespace {

// Distinguishes live records from outdated records. Call Next() for all records in ordinal order.
class LiveRecords {
 public:
  explicit LiveRecords(Keyed<uint32_t>& keyed) {
    ordinals_.reserve(keyed.size());
    keyed.ForEach([this](uint32_t ordinal) { ordinals_.push_back(ordinal); });
    std::sort(ordinals_.begin(), ordinals_.end());
  }
  template <typename Kept>
  explicit LiveRecords(const std::optional<Kept>& kept) {
    if (kept) ordinals_.push_back(kept->value);
  }

  bool Next() {
    const bool alive = next_ < ordinals_.size() && ordinals_[next_] == met_;
    ++met_;
    if (alive) ++next_;
    return alive;
  }

 private:
  std::vector<uint32_t> ordinals_;
  size_t next_ = 0;
  uint32_t met_ = 0;
};

absl::Status Parse(std::string_view message, saved::v1::Frame& frame) {
  return frame.ParseFromArray(message.data(), static_cast<int>(message.size()))
             ? absl::OkStatus()
             : absl::DataLossError("frame is not a valid message");
}

// Starts a new frame when the current frame is full. After an error, Output writes nothing more.
class Output {
 public:
  explicit Output(FrameFile& file) : file_(file) {}

  void Add(const saved::v1::Frame& part) {
    builder_.Add(part);
    if (builder_.size() >= kFrameTarget) EndFrame();
  }
  void EndFrame() {
    if (status_.ok() && !builder_.empty()) status_ = file_.Append(builder_);
  }
  const absl::Status& status() const { return status_; }

 private:
  FrameFile& file_;
  FrameBuilder builder_;
  absl::Status status_;
};

}  // namespace

struct Compaction::Places {
  Ledger<Ordinals> ledger;
  uint64_t begin = 0;     // Offset of the first frame.
  uint64_t resolved = 0;  // Offset up to which no attempt is open.
  uint64_t end = 0;
};

absl::Status Compaction::Measure(uint64_t end) {
  const absl::StatusOr<FileHeader> header = ReadFileHeader(from_);
  if (!header.ok()) return header.status();
  places_ = std::make_shared<Places>();
  places_->begin = places_->resolved = header->size;
  places_->end = end;
  FrameReader reader(from_, id_, header->size, end);
  saved::v1::Frame frame;
  while (const std::optional<std::string_view> message = reader.Next()) {
    if (const absl::Status status = Parse(*message, frame); !status.ok()) return status;
    if (const absl::Status status = places_->ledger.Apply(frame); !status.ok()) return status;
    if (!places_->ledger.attempt()) places_->resolved = reader.offset();
  }
  live_bytes_ = header->size + places_->ledger.live_bytes();
  return reader.status();
}

absl::StatusOr<std::shared_ptr<FrameFile>> Compaction::Write(Files& files, const std::string& path,
                                                             const std::string& writer) {
  absl::StatusOr<std::shared_ptr<FrameFile>> to = FrameFile::Create(files, path, writer);
  if (!to.ok()) return to;
  absl::Status status = CopyLiveRecords(**to);
  copied_ = places_->resolved;
  if (status.ok()) status = CopyTail(**to, places_->end);
  places_.reset();
  if (!status.ok()) return status;
  return to;
}

// Writes all rows as one committed attempt.
absl::Status Compaction::CopyLiveRecords(FrameFile& to) {
  Ledger<Ordinals>& ledger = places_->ledger;
  LiveRecords objects(ledger.objects()), services(ledger.services());
  LiveRecords node_rows(ledger.node_rows()), tables(ledger.tables());
  Output output(to);

  saved::v1::Frame part;
  if (ledger.marker()) {
    ToMessage(*ledger.marker(), *part.mutable_begin()->mutable_marker());
    part.mutable_begin()->set_whole(true);
    output.Add(part);
  }
  FrameReader reader(from_, id_, places_->begin, places_->resolved);
  saved::v1::Frame frame;
  while (const std::optional<std::string_view> message = reader.Next()) {
    if (const absl::Status status = Parse(*message, frame); !status.ok()) return status;
    part.Clear();
    for (saved::v1::Object& object : *frame.mutable_objects()) {
      if (objects.Next()) part.add_objects()->Swap(&object);
    }
    for (saved::v1::Service& service : *frame.mutable_services()) {
      if (services.Next()) part.add_services()->Swap(&service);
    }
    if (frame.has_node_rows() && node_rows.Next()) {
      part.mutable_node_rows()->Swap(frame.mutable_node_rows());
    }
    if (frame.has_tables() && tables.Next()) part.mutable_tables()->Swap(frame.mutable_tables());
    output.Add(part);
    if (!output.status().ok()) return output.status();
  }
  if (!reader.status().ok()) return reader.status();

  part.Clear();
  if (ledger.marker()) {
    part.set_asked(true);
    output.Add(part);
    output.EndFrame();
    part.Clear();
    part.mutable_outcome()->set_committed(true);
  }
  if (ledger.generation()) part.mutable_generation()->set_id(*ledger.generation());
  if (ledger.partial()) part.set_partial(true);
  ToMessage(ledger.next_numbers(), *part.mutable_next_numbers());
  output.Add(part);
  output.EndFrame();
  return output.status();
}

absl::Status Compaction::CopyTail(FrameFile& to, uint64_t end) {
  FrameReader reader(from_, id_, copied_, end);
  FrameBuilder builder;
  while (const std::optional<std::string_view> message = reader.Next()) {
    builder.AddEncoded(*message);
    if (const absl::Status status = to.Append(builder); !status.ok()) return status;
  }
  copied_ = reader.offset();
  return reader.status();
}

}  // namespace svcmap::proxy
