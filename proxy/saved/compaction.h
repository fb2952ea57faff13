// Copies the live records of a state file to a new file. Compaction reads only the file, and needs
// memory for one digest per key and one or two frames. Frames that are appended to the old file
// during the compaction are copied unchanged.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "proxy/saved/frames.h"

namespace svcmap::proxy {

class Compaction {
 public:
  // Other threads may append to `from` but must not close the file.
  Compaction(File& from, uint64_t id) : from_(from), id_(id) {}

  // Reads the frames up to `end` and determines the size of the live records.
  absl::Status Measure(uint64_t end);
  uint64_t live_bytes() const { return live_bytes_; }

  // Writes the live records, followed by all measured frames after the last frame without an open
  // attempt.
  absl::StatusOr<std::shared_ptr<FrameFile>> Write(Files& files, const std::string& path,
                                                   const std::string& writer);
  // Copies the frames up to `end` that are not copied yet.
  absl::Status CopyTail(FrameFile& to, uint64_t end);
  uint64_t copied() const { return copied_; }

 private:
  struct Places;

  absl::Status CopyLiveRecords(FrameFile& to);

  File& from_;
  const uint64_t id_;
  uint64_t live_bytes_ = 0;
  uint64_t copied_ = 0;
  std::shared_ptr<Places> places_;
};

}  // namespace svcmap::proxy
