// Fuzzes Replay with arbitrary files. Nearly all inputs would fail the checksums, so each input is
// also used as the content of a file with valid checksums. For the file with valid checksums, the
// input is parsed as messages, each preceded by its length in two bytes (little endian).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>

#include "absl/status/status.h"
#include "proxy/saved/frames.h"
#include "proxy/saved/replay.h"

namespace svcmap::proxy {
namespace {

class BytesFile : public File {
 public:
  explicit BytesFile(std::string* bytes) : bytes_(*bytes) {}

  absl::StatusOr<size_t> Read(uint64_t offset, std::span<char> into) override {
    return offset < bytes_.size() ? bytes_.copy(into.data(), into.size(), offset) : 0;
  }
  absl::Status Append(std::string_view bytes) override {
    bytes_ += bytes;
    return absl::OkStatus();
  }
  absl::Status Sync() override { return absl::OkStatus(); }
  absl::StatusOr<uint64_t> Size() override { return bytes_.size(); }
  absl::StatusOr<bool> HasName() override { return true; }
  absl::Status Truncate(uint64_t) override { return absl::OkStatus(); }
  absl::Status Lock() override { return absl::OkStatus(); }

 private:
  std::string& bytes_;
};

// A file system that contains a single file with the content `bytes`.
class OneFile : public Files {
 public:
  absl::StatusOr<std::unique_ptr<File>> Open(const std::string&, OpenMode) override {
    return std::make_unique<BytesFile>(&bytes);
  }
  absl::Status Rename(const std::string&, const std::string&) override { return {}; }
  absl::Status Remove(const std::string&) override { return {}; }
  absl::Status MakeFolder(const std::string&) override { return {}; }
  absl::Status CheckFolder(const std::string&) override { return {}; }
  absl::Status SyncFolder(const std::string&) override { return {}; }
  absl::StatusOr<std::vector<std::string>> List(const std::string&) override {
    return std::vector<std::string>();
  }

  std::string bytes;
};

void Require(bool holds) {
  if (!holds) __builtin_trap();
}

void CheckServices(const SavedState& state) {
  std::unordered_set<std::string> keys;
  for (const auto& [key, rows] : state.services) Require(!rows.empty() && keys.insert(key).second);
}

void ReplayFile(std::string bytes) {
  BytesFile file(&bytes);
  absl::StatusOr<Replayed> replayed = Replay(file);
  if (!replayed.ok()) return Require(!replayed.status().message().empty());
  Require(replayed->end <= bytes.size() && replayed->torn == (replayed->end != bytes.size()));
  CheckServices(replayed->state);
  // Bytes after the last valid frame have no effect.
  bytes.resize(replayed->end);
  const absl::StatusOr<Replayed> again = Replay(file);
  Require(again.ok() && !again->torn && again->live_bytes == replayed->live_bytes);
  Resolve(replayed->state, true);
  CheckServices(replayed->state);
}

std::string FileOf(const uint8_t* data, size_t size) {
  OneFile files;
  const absl::StatusOr<std::shared_ptr<FrameFile>> file = FrameFile::Create(files, "", "fuzz");
  while (size >= 2) {
    const size_t length = std::min<size_t>(data[0] | data[1] << 8, size - 2);
    FrameBuilder frame;
    frame.AddEncoded({reinterpret_cast<const char*>(data) + 2, length});
    Require((*file)->Append(frame).ok());
    data += 2 + length;
    size -= 2 + length;
  }
  return files.bytes;
}

}  // namespace
}  // namespace svcmap::proxy

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1 << 20) return 0;
  svcmap::proxy::ReplayFile(std::string(reinterpret_cast<const char*>(data), size));
  svcmap::proxy::ReplayFile(svcmap::proxy::FileOf(data, size));
  return 0;
}
