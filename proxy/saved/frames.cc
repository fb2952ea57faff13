#include "proxy/saved/frames.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace svcmap::proxy {
namespace {

using SystemClock = std::chrono::system_clock;

constexpr std::string_view kFileMagic = "svcmapSF";
constexpr uint32_t kFrameMagic = 0xf5a3e17c;
constexpr size_t kWindow = size_t{1} << 20;
constexpr uint32_t kMaxWriter = 256;

// Start of a file header, in the byte order of this machine, because only the same machine reads
// the file.
struct FileStart {
  char magic[8];
  uint32_t version;
  uint32_t writer;  // Length of the writer's name, which follows. A checksum follows the name.
  uint64_t id;
};
static_assert(sizeof(FileStart) == 24);

struct FrameHeader {
  uint32_t magic;
  uint32_t length;   // Length of the message.
  uint64_t synced;   // Number of file bytes that are on disk.
  int64_t written;   // Unix time in nanoseconds.
  uint64_t message;  // Checksum of the message.
  uint64_t check;    // Checksum of the fields above.
};
static_assert(sizeof(FrameHeader) == kFrameHeaderSize);

template <typename T>
T Load(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

// The checksum includes file id and offset, so that a frame copied from another file or offset is
// invalid.
uint64_t CheckOf(const FrameHeader& header, uint64_t id, uint64_t offset) {
  return XXH3_64bits_withSeed(&header, offsetof(FrameHeader, check), id + offset);
}

absl::Status NotIntact(uint64_t offset, const char* reason) {
  return absl::DataLossError("offset " + std::to_string(offset) + ": " + reason);
}

}  // namespace

absl::StatusOr<std::shared_ptr<FrameFile>> FrameFile::Create(Files& files, const std::string& path,
                                                             const std::string& writer) {
  absl::StatusOr<std::unique_ptr<File>> file = files.Open(path, OpenMode::kCreate);
  if (!file.ok()) return file.status();
  FileStart start = {};
  std::copy(kFileMagic.begin(), kFileMagic.end(), start.magic);
  start.version = kFormatVersion;
  start.writer = static_cast<uint32_t>(std::min<size_t>(writer.size(), kMaxWriter));
  std::random_device random;
  start.id = uint64_t{random()} << 32 | random();
  std::string bytes(reinterpret_cast<const char*>(&start), sizeof(start));
  bytes.append(writer, 0, start.writer);
  const uint64_t check = XXH3_64bits(bytes.data(), bytes.size());
  bytes.append(reinterpret_cast<const char*>(&check), sizeof(check));
  if (const absl::Status status = (*file)->Append(bytes); !status.ok()) {
    files.Remove(path).IgnoreError();
    return status;
  }
  return std::make_shared<FrameFile>(*std::move(file), start.id, bytes.size());
}

absl::Status FrameFile::Append(FrameBuilder& frame) {
  std::string& bytes = frame.bytes_;
  const std::string_view message = std::string_view(bytes).substr(kFrameHeaderSize);
  FrameHeader header = {
      .magic = kFrameMagic,
      .length = static_cast<uint32_t>(message.size()),
      .synced = synced_,
      .written = SystemClock::now().time_since_epoch() / std::chrono::nanoseconds(1),
      .message = XXH3_64bits(message.data(), message.size()),
      .check = 0};
  header.check = CheckOf(header, id_, size_);
  std::memcpy(bytes.data(), &header, sizeof(header));
  const absl::Status status = file_->Append(bytes);
  if (status.ok()) size_ += bytes.size();
  frame.Clear();
  return status;
}

absl::StatusOr<FileHeader> ReadFileHeader(File& file) {
  std::string bytes(sizeof(FileStart) + kMaxWriter + sizeof(uint64_t), '\0');
  const absl::StatusOr<size_t> size = file.Read(0, bytes);
  if (!size.ok()) return size.status();
  bytes.resize(*size);
  if (bytes.size() < sizeof(FileStart)) return NotIntact(0, "incomplete file header");
  const auto start = Load<FileStart>(bytes);
  if (std::string_view(start.magic, sizeof(start.magic)) != kFileMagic) {
    return NotIntact(0, "not a state file (invalid magic number)");
  }
  if (start.version != kFormatVersion) {
    return absl::UnimplementedError("format version " + std::to_string(start.version) +
                                    " is not supported, expected version " +
                                    std::to_string(kFormatVersion));
  }
  const size_t checked = sizeof(FileStart) + start.writer;
  if (start.writer > kMaxWriter || bytes.size() < checked + sizeof(uint64_t) ||
      Load<uint64_t>(std::string_view(bytes).substr(checked)) !=
          XXH3_64bits(bytes.data(), checked)) {
    return NotIntact(0, "file header checksum mismatch");
  }
  return FileHeader{.id = start.id,
                    .writer = bytes.substr(sizeof(FileStart), start.writer),
                    .size = checked + sizeof(uint64_t)};
}

absl::StatusOr<std::string_view> FrameReader::Bytes(uint64_t offset, size_t size) {
  if (offset < window_begin_ || offset + size > window_begin_ + window_.size()) {
    window_.resize(std::min<uint64_t>(std::max(size, kWindow), end_ - offset));
    window_begin_ = offset;
    const absl::StatusOr<size_t> count = file_.Read(offset, window_);
    window_.resize(count.ok() ? *count : 0);
    if (!count.ok()) return count.status();
    if (*count < size) return NotIntact(offset, "the file was truncated while it was read");
  }
  return std::string_view(window_).substr(offset - window_begin_, size);
}

std::optional<std::string_view> FrameReader::Next() {
  const auto stop = [this](absl::Status status) {
    status_ = std::move(status);
    return std::nullopt;
  };
  if (!status_.ok() || offset_ == end_) return std::nullopt;
  const uint64_t left = end_ - offset_;
  if (left < kFrameHeaderSize) return stop(NotIntact(offset_, "incomplete frame"));
  absl::StatusOr<std::string_view> bytes = Bytes(offset_, kFrameHeaderSize);
  if (!bytes.ok()) return stop(bytes.status());
  const auto header = Load<FrameHeader>(*bytes);
  if (header.magic != kFrameMagic || header.check != CheckOf(header, id_, offset_)) {
    return stop(NotIntact(offset_, "frame header checksum mismatch"));
  }
  if (left - kFrameHeaderSize < header.length) {
    return stop(NotIntact(offset_, "incomplete frame"));
  }
  bytes = Bytes(offset_, kFrameHeaderSize + header.length);
  if (!bytes.ok()) return stop(bytes.status());
  const std::string_view message = bytes->substr(kFrameHeaderSize);
  if (header.message != XXH3_64bits(message.data(), message.size())) {
    return stop(NotIntact(offset_, "frame checksum mismatch"));
  }
  written_ = SystemClock::time_point(std::chrono::nanoseconds(header.written));
  offset_ += bytes->size();
  return message;
}

absl::StatusOr<bool> FrameReader::WasSynced() {
  const std::string_view magic(reinterpret_cast<const char*>(&kFrameMagic), sizeof(kFrameMagic));
  for (uint64_t begin = offset_ + 1; begin + kFrameHeaderSize <= end_;) {
    const absl::StatusOr<std::string_view> bytes =
        Bytes(begin, std::min<uint64_t>(kWindow, end_ - begin));
    if (!bytes.ok()) return bytes.status();
    for (size_t at = bytes->find(magic);
         at != std::string_view::npos && at + kFrameHeaderSize <= bytes->size();
         at = bytes->find(magic, at + 1)) {
      const auto header = Load<FrameHeader>(bytes->substr(at));
      if (header.check == CheckOf(header, id_, begin + at) && header.synced > offset_) return true;
    }
    begin += bytes->size() - (kFrameHeaderSize - 1);
  }
  return false;
}

}  // namespace svcmap::proxy
