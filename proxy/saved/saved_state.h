// The state saved on disk between two runs: the received objects and the rows in the kernel.
// StateLog reads and writes these plain values.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proxy/desired/groups.h"
#include "proxy/desired/rows.h"
#include "proxy/diff/plan.h"
#include "proxy/state/objects.h"

namespace svcmap::proxy {

// Properties of the tables other than their elements.
struct SavedTables {
  std::vector<uint32_t> timers;  // The affinity timeouts that have chains in the table.
  uint64_t ruleset = 0;          // Digest of the constant ruleset.

  friend bool operator==(const SavedTables&, const SavedTables&) = default;
};

// The changes made by one commit. SavedCommit does not own the referenced objects.
struct SavedCommit {
  Marker marker;
  // True if the tables are rewritten completely, in place or by creating them again. The tables
  // then contain exactly the rows in this commit, so `node_rows` and `tables` are required.
  bool whole = false;
  // Changed Services, without duplicates. A Service with empty rows is removed.
  std::vector<std::pair<std::string, const ServiceRows*>> services;
  const std::vector<Row>* node_rows = nullptr;  // Null if unchanged.
  const SavedTables* tables = nullptr;          // Null if unchanged.
  NextNumbers next_numbers = {};                // After the allocations for this commit.
};

struct SavedState {
  struct Object {
    Kind kind = Kind::kService;
    std::string key;
    std::string message;      // The object as received, serialized.
    uint64_t first_seen = 0;  // ServiceEntry::first_seen. 0 for other kinds.
  };
  // A SavedCommit that was sent, or was about to be sent, to the kernel.
  struct Attempt {
    Marker marker;
    bool whole = false;
    std::vector<std::pair<std::string, ServiceRows>> services;
    std::optional<std::vector<Row>> node_rows;
    std::optional<SavedTables> tables;
  };

  std::vector<Object> objects;  // Without duplicates.
  // True if the agent has received no complete state. The objects, if any, are a part of the first
  // snapshot, which has not ended.
  bool partial = false;

  // The saved rows are in the kernel if the kernel's marker is equal to `marker`. Without a marker,
  // nothing was committed or the kernel's content is unknown.
  std::optional<Marker> marker;
  // Generation id of the kernel. The id is set only if no other process changed svcmap's tables up
  // to this id.
  std::optional<uint32_t> generation;
  // Services with non-empty rows, without duplicates.
  std::vector<std::pair<std::string, ServiceRows>> services;
  std::vector<Row> node_rows;
  SavedTables tables;
  NextNumbers next_numbers = {};  // The maximum of all attempts.

  // The last attempt, if its outcome is unknown. The attempt was committed if the kernel's marker
  // equals the attempt's marker, and not committed if the kernel's marker equals `marker`. If the
  // kernel's marker differs from both markers, the kernel's content is unknown.
  std::optional<Attempt> attempt;

  std::chrono::system_clock::time_point saved;  // Time of the last write.
};

// Resolves `state.attempt`. If the attempt was committed, its rows take effect, its marker becomes
// `marker`, and a known generation is incremented.
void Resolve(SavedState& state, bool committed);

}  // namespace svcmap::proxy
