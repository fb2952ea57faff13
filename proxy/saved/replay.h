// Reads a complete state file.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "proxy/saved/files.h"
#include "proxy/saved/saved_state.h"

namespace svcmap::proxy {

struct Replayed {
  SavedState state;
  uint64_t id = 0;   // Id of the file.
  uint64_t end = 0;  // End of the valid frames.
  // True if the file ends with incomplete bytes that were not on disk when the machine stopped.
  bool torn = false;
  uint64_t live_bytes = 0;  // Size of the live records.
};

// Returns an error with the offset of the damage or with the unsupported format version.
absl::StatusOr<Replayed> Replay(File& file);

}  // namespace svcmap::proxy
