// The file format: a file header, followed by frames. Each frame contains checksums and one
// protobuf message (svcmap.saved.v1.Frame) and is valid completely or not at all. The code in this
// file does not interpret the messages.
//
// The file header contains magic, format version, random id, writer and checksum. A frame contains
// magic, length, `synced`, time, checksum of the message, checksum of these fields, and the
// message.
//
// `synced` is the number of bytes of the file that were on disk when the frame was written.
// `synced` distinguishes the effects of a crash from damage. After a crash, bytes at the end of the
// file that were not on disk may be missing or incomplete. If a later frame declares that invalid
// bytes were on disk, the file was damaged.
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

inline constexpr uint32_t kFormatVersion = 2;
inline constexpr size_t kFrameHeaderSize = 40;
// Writers start a new frame when a frame exceeds this size, so that a reader needs little memory.
inline constexpr size_t kFrameTarget = size_t{256} << 10;

// Builds one frame in memory.
class FrameBuilder {
 public:
  // Appends fields to the message. As in protobuf, concatenated parts are merged into one message.
  void Add(const saved::v1::Frame& part) { part.AppendToString(&bytes_); }
  void AddEncoded(std::string_view message) { bytes_ += message; }
  size_t size() const { return bytes_.size() - kFrameHeaderSize; }
  bool empty() const { return size() == 0; }
  void Clear() { bytes_.resize(kFrameHeaderSize); }

 private:
  friend class FrameFile;

  std::string bytes_ = std::string(kFrameHeaderSize, '\0');
};

// A file to which frames are appended. FrameFile is not thread-safe, except for file().
class FrameFile {
 public:
  static absl::StatusOr<std::shared_ptr<FrameFile>> Create(Files& files, const std::string& path,
                                                           const std::string& writer);
  // Opens a file whose frames are valid up to `size`, the end of the file.
  FrameFile(std::unique_ptr<File> file, uint64_t id, uint64_t size)
      : file_(std::move(file)), id_(id), size_(size) {}

  // Appends `frame` to the file, then clears `frame`.
  absl::Status Append(FrameBuilder& frame);

  File& file() const { return *file_; }
  uint64_t id() const { return id_; }
  uint64_t size() const { return size_; }
  // Returns the number of bytes that are known to be on disk.
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
  uint64_t size = 0;  // Offset of the first frame.
};

// Returns kDataLoss with offset and reason if the header is damaged, and kUnimplemented for an
// unsupported format version.
absl::StatusOr<FileHeader> ReadFileHeader(File& file);

class FrameReader {
 public:
  // Reads the frames from `begin`, the start of a frame, to `end`.
  FrameReader(File& file, uint64_t id, uint64_t begin, uint64_t end)
      : file_(file), id_(id), offset_(begin), end_(end) {}

  // Returns the next message, which is valid until the next call. Returns nullopt at the end of the
  // file and at the first invalid frame.
  std::optional<std::string_view> Next();

  uint64_t offset() const { return offset_; }  // File offset after the last frame returned by Next.
  // Time at which the last frame was written.
  std::chrono::system_clock::time_point written() const { return written_; }

  // Reason why Next returned nullopt. The status is OK at the end of the file, and kDataLoss if the
  // frame at offset() is invalid.
  const absl::Status& status() const { return status_; }
  // Returns true if a later frame declares that the invalid bytes were on disk.
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
