// Make before break: divides a plan into commits, so that no packet is lost, misdirected or wrongly
// admitted. docs/decisions/0011-make-before-break.md has the reasons for each pair of sets.
//
// A packet looks up several maps in a row: its destination becomes a descriptor, and the descriptor
// leads to an endpoint. If one commit changes two of these maps between the two lookups, the packet
// sees the old row of the first map and the new row of the second one. Therefore rows that other
// rows lead to are added before these rows, and deleted after them.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "nft/model/transaction.h"
#include "proxy/desired/groups.h"

namespace svcmap::proxy {

// Returns true for the sets with the endpoints of ports with session affinity.
bool IsStickyEndpoint(uint8_t set);
// Returns the number of the port in the key of such an element.
Number StickyPortOf(const nft::ElementView& endpoint);

// Identifies the group of a slot.
std::string GroupKey(const nft::ElementView& slot);

struct PhaseContext {
  // Whether packets to clusterIPs are masqueraded.
  bool masquerades_cluster_ips = false;
  // Numbers that the plan frees. Endpoints of other ports with session affinity stay in use.
  std::vector<Number> freed;
  // See Plan::ended_local_sets().
  absl::flat_hash_set<std::string> ended_local_sets;
  // Groups (as GroupKey) whose slots packets may pick before the plan. A new slot of such a group
  // must not be added before the endpoint that it leads to.
  absl::flat_hash_set<std::string> groups_in_use;
};

struct Phases {
  // Committed in this order before `change`, each in parts: source ranges of newly restricted IPs,
  // restrictions and clusterIPs, then ports that move to a map that packets look up earlier, and
  // what these ports lead to. If the plan is large, all rows that packets reach only through
  // others, because no commit may block the kernel for long.
  std::vector<nft::Transaction> first;
  // The changes of tables, chains and rules, and the elements that must change together.
  nft::Transaction change;
  // Committed after `change`: deletions of rows that no packet reaches any more.
  nft::Transaction removals;
};

// `all` contains its deletions before its additions, and no marker. If it only deletes rows that
// packets reach through others, all of them are in `change`.
//
// Each key that is deleted and added in `change` is deleted directly before its addition, and after
// the additions of new keys: Linux before 6.17 (6.12: before 6.12.48) can miss such a key between
// its deletion and its addition. Elements of sets of ranges come last, in the given order, because
// the kernel rejects the addition of a range that overlaps another one.
Phases SplitIntoPhases(nft::Transaction all, const PhaseContext& context);

// Moves all slots of endpoints except the first slot of each group to the end of `transaction`, and
// the marker behind them. If a pick finds no endpoint in its slot, the rules use the first slot. If
// the transaction is then committed in parts, each Service has an endpoint early. `transaction`
// deletes only the marker.
void PutFirstSlotsFirst(nft::Transaction& transaction);

}  // namespace svcmap::proxy
