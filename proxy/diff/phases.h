// Make before break: divides a plan into commits, so that no packet is lost, misdirected or wrongly
// admitted. Rows that other rows lead to are added before these rows, and deleted after them.
// docs/decisions/0011-make-before-break.md has the reasons for each pair of sets.
#pragma once

#include <array>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "nft/model/transaction.h"

namespace svcmap::proxy {

struct PhaseContext {
  // Whether packets to clusterIPs are masqueraded.
  bool masquerades_cluster_ips = false;
  absl::flat_hash_set<std::string> ended_sets;  // See EndedSets.
};

// Rows that are committed before the change.
struct FirstPhase {
  nft::Transaction rows;
  // True if packets that have looked up the previous rows must leave the rules before the next
  // commit: a later lookup would find the next rows.
  bool await_packets = false;
};

struct Phases {
  // Committed in this order before `change`, each in parts:
  // 1. Source ranges of newly restricted IPs: deletions of old ones, and additions.
  // 2. Restrictions and clusterIPs.
  // 3. Ports that move to a map that packets look up earlier, after the rows that these ports lead
  //    to. If the plan is large, also all rows that packets reach only through other rows, because
  //    no commit may block the kernel for long.
  std::array<FirstPhase, 3> first;
  // The changes of tables, chains and rules, and the elements that must change together.
  nft::Transaction change;
  // Committed after `change`: deletions of rows that no packet reaches any more.
  nft::Transaction removals;
};

// `all` must contain its deletions before its additions, and no marker. If `all` only deletes rows
// that packets reach through other rows, `change` contains all of these deletions.
//
// In `change`, the additions of new keys come first. If a key is deleted and added, its addition
// directly follows its deletion, because between the two, a packet's lookup can miss the key on
// Linux before 6.17 (6.12: before 6.12.48). Elements of sets of ranges come last, in the given
// order, because the kernel rejects the addition of a range that overlaps another one.
Phases SplitIntoPhases(nft::Transaction all, const PhaseContext& context);

// Moves all slots of endpoints except the first slot of each group to the end of `transaction`, and
// the marker behind them. If a pick finds no endpoint in its slot, the rules use the first slot. If
// the transaction is then committed in parts, each Service has an endpoint early. `transaction`
// deletes only the marker.
void PutFirstSlotsFirst(nft::Transaction& transaction);

}  // namespace svcmap::proxy
