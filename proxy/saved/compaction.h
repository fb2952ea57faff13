// Writes what is alive in a state file to a new one: by the file alone, with memory for a digest
// per key and a frame or two. What is appended to the old file meanwhile is copied as it is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "proxy/saved/frames.h"

namespace svcmap::proxy {

class Compaction {
 public:
  // `from` may be appended to, but not be destroyed.
  Compaction(File& from, uint64_t id) : from_(from), id_(id) {}

  // Reads the frames up to `end`; afterwards it is known how much of them is alive.
  absl::Status Measure(uint64_t end);
  uint64_t live_bytes() const { return live_bytes_; }

  // What is alive, then Measure's frames behind the last one after which no attempt was open.
  absl::StatusOr<std::shared_ptr<FrameFile>> Write(Files& files, const std::string& path,
                                                   const std::string& writer);
  // Everything up to `end` that was not copied before.
  absl::Status CopyTail(FrameFile& to, uint64_t end);
  uint64_t copied() const { return copied_; }

 private:
  struct Places;

  absl::Status CopyAlive(FrameFile& to);

  File& from_;
  const uint64_t id_;
  uint64_t live_bytes_ = 0;
  uint64_t copied_ = 0;
  std::shared_ptr<Places> places_;
};

}  // namespace svcmap::proxy
