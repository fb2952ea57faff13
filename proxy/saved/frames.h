// How bytes lie in the file: a header, then frames, each with checksums and a protobuf message
// (svcmap.saved.v1.Frame). A frame is there as a whole or not at all. Knows nothing of what the
// messages mean.
//
//   file header   magic, version of the format, random id, who wrote it, checksum
//   frame         magic, length, synced, time, checksum of the message, checksum of all this;
//                 then the message
//
// `synced` says how many bytes of the file were on disk when the frame was written. It tells what a
// crash leaves from damage: bytes at the end that were not on disk yet may be missing or torn, but
// where a later frame says that they were on disk, something else has changed them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proxy/saved/files.h"
#include "svcmap/saved/v1/saved.pb.h"

namespace svcmap::proxy {

inline constexpr uint32_t kFormatVersion = 1;
inline constexpr size_t kFrameHeaderSize = 40;
// Writers begin a new frame behind this, so that a reader needs little memory.
inline constexpr size_t kFrameTarget = size_t{256} << 10;

// One frame before it is written.
class FrameBuilder {
 public:
  // Fields of a message; parts add up to one message, as protobuf merges them.
  void Add(const saved::v1::Frame& part) { part.AppendToString(&bytes_); }
  void AddEncoded(std::string_view message) { bytes_ += message; }
  size_t size() const { return bytes_.size() - kFrameHeaderSize; }
  bool empty() const { return size() == 0; }
  void Clear() { bytes_.resize(kFrameHeaderSize); }

 private:
  friend class FrameFile;

  std::string bytes_ = std::string(kFrameHeaderSize, '\0');
};

// A file that frames are appended to. Not thread-safe, but for file().
class FrameFile {
 public:
  static absl::StatusOr<std::shared_ptr<FrameFile>> Create(Files& files, const std::string& path,
                                                           const std::string& writer);
  // One that holds intact frames up to `size`, its end.
  FrameFile(std::unique_ptr<File> file, uint64_t id, uint64_t size)
      : file_(std::move(file)), id_(id), size_(size) {}

  // Writes and clears `frame`.
  absl::Status Append(FrameBuilder& frame);

  File& file() const { return *file_; }
  uint64_t id() const { return id_; }
  uint64_t size() const { return size_; }
  // So many bytes are on disk.
  uint64_t synced() const { return synced_; }
  void SetSynced(uint64_t size) { synced_ = size; }

 private:
  std::unique_ptr<File> file_;
  uint64_t id_;
  uint64_t size_;
  uint64_t synced_ = 0;
};

struct FileHeader {
  uint64_t id = 0;
  std::string writer;
  uint64_t size = 0;  // Where the first frame begins.
};

// What is wrong with it is in the error: kDataLoss with offset and reason, kUnimplemented for
// another version of the format.
absl::StatusOr<FileHeader> ReadFileHeader(File& file);

class FrameReader {
 public:
  // Reads the frames from `begin`, where one begins, to `end`.
  FrameReader(File& file, uint64_t id, uint64_t begin, uint64_t end)
      : file_(file), id_(id), offset_(begin), end_(end) {}

  // The next message; valid until the next call. Nothing at the end, and from the first frame on
  // that is not intact.
  std::optional<std::string_view> Next();

  uint64_t offset() const { return offset_; }  // Behind the frames that Next gave.
  std::chrono::system_clock::time_point written() const { return written_; }  // The last of them.

  // Why Next gave nothing; OK at the end. kDataLoss: the frame at offset() is not intact.
  const absl::Status& status() const { return status_; }
  // What is not intact had been on disk: a frame behind it says so.
  absl::StatusOr<bool> WasSynced();

 private:
  absl::StatusOr<std::string_view> Bytes(uint64_t offset, size_t size);

  File& file_;
  const uint64_t id_;
  uint64_t offset_;
  const uint64_t end_;
  std::chrono::system_clock::time_point written_;
  absl::Status status_;
  std::string window_;
  uint64_t window_begin_ = 0;
};

}  // namespace svcmap::proxy
