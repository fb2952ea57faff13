// What is kept on disk between two lives: what we were told, and what the kernel holds of it. Plain
// values; state_log.h writes and reads them.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proxy/desired/rows.h"
#include "proxy/diff/plan.h"
#include "proxy/state/objects.h"

namespace svcmap::proxy {

// What the tables are apart from their elements.
struct SavedTables {
  std::array<std::vector<uint32_t>, 2> sizes;  // Of the sized sets, as created; by Index(Family).
  std::vector<uint32_t> timers;                // The affinity timeouts they have chains for.
  uint64_t ruleset = 0;                        // A digest of the constant ruleset.

  friend bool operator==(const SavedTables&, const SavedTables&) = default;
};

// What one commit makes true. Borrows everything.
struct SavedCommit {
  Marker marker;
  // The tables are written anew, in place or not: afterwards they hold what is named here and
  // nothing else, so `node_rows` and `tables` belong to it.
  bool whole = false;
  // Those that change, each once. Empty rows: gone.
  std::vector<std::pair<std::string, const ServiceRows*>> services;
  const std::vector<Row>* node_rows = nullptr;  // Null: as before.
  const SavedTables* tables = nullptr;          // Null: as before.
};

struct SavedState {
  struct Object {
    Kind kind = Kind::kService;
    std::string key;
    std::string message;  // As it was sent, serialized.
  };
  // A SavedCommit that the kernel was, or was about to be, asked for.
  struct Attempt {
    Marker marker;
    bool whole = false;
    std::vector<std::pair<std::string, ServiceRows>> services;
    std::optional<std::vector<Row>> node_rows;
    std::optional<SavedTables> tables;
  };

  std::vector<Object> objects;  // Each once.

  // What the kernel holds if its marker is this one. Without a marker nothing was ever committed,
  // or nothing is known of it.
  std::optional<Marker> marker;
  // The kernel's generation id, where everything up to it is known to be ours or to have left our
  // tables alone.
  std::optional<uint32_t> generation;
  std::vector<std::pair<std::string, ServiceRows>> services;  // Each once; none has empty rows.
  std::vector<Row> node_rows;
  SavedTables tables;

  // The last one, if its outcome was not written: the kernel's marker tells, by being that of the
  // attempt or the one above. Any other marker means that the kernel holds something else.
  std::optional<Attempt> attempt;

  std::chrono::system_clock::time_point saved;  // When something was last written.
};

// Settles `state.attempt`: if committed, its rows take effect, its marker is the marker, and the
// generation is the next one, where it was known.
void Resolve(SavedState& state, bool committed);

}  // namespace svcmap::proxy
