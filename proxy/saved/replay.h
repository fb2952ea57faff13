// Reads a state file from its beginning.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "proxy/saved/files.h"
#include "proxy/saved/saved_state.h"

namespace svcmap::proxy {

struct Replayed {
  SavedState state;
  uint64_t id = 0;          // Of the file.
  uint64_t end = 0;         // Of its intact frames.
  bool torn = false;        // What lies behind them was not on disk when the machine stopped.
  uint64_t live_bytes = 0;  // How large the file has to be.
};

// The error says where the file is damaged, or which version of the format it has.
absl::StatusOr<Replayed> Replay(File& file);

}  // namespace svcmap::proxy
