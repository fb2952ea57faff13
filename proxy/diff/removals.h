// Make before break: splits a transaction in two, so that no packet is dropped.
//
// A packet looks up several maps in a row: its destination becomes a descriptor, and the descriptor
// leads to an endpoint. If one commit deletes both rows, a packet that holds the old descriptor
// finds no endpoint and is dropped. Therefore rows that other rows lead to are deleted by a second
// transaction, after the commit that makes them unreachable.
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

// Moves these deletions from `transaction` to the result: elements that packets reach only through
// other rows, and that the transaction does not add again. Slots are moved only together with the
// first slot of their group. Endpoints for session affinity are moved only if `freed` contains the
// number of their port. Rejects of destinations without endpoints are moved if the transaction adds
// destinations. A transaction that only deletes such elements is not split. The elements in
// `ended_local_sets` (Plan::ended_local_sets) are not moved: other rows still lead to them, so that
// packets would reach former endpoints until the removal.
//
// `transaction` contains all its deletions before its additions, and no marker.
nft::Transaction TakeRemovals(nft::Transaction& transaction, const std::vector<Number>& freed = {},
                              const absl::flat_hash_set<std::string>& ended_local_sets = {});

// Identifies the group of a slot.
std::string GroupKey(const nft::ElementView& slot);

// Moves these additions from `transaction` to the result: elements that packets reach only through
// other rows, and whose keys the transaction does not delete. Slots come last. Does not move the
// slots of `groups_in_use` (as GroupKey).
nft::Transaction TakeAdditions(nft::Transaction& transaction,
                               const absl::flat_hash_set<std::string>& groups_in_use = {});

// Moves these additions from `transaction` to the result: ports whose element moves from
// `range-blocks` to `range-ports`, or from one of these maps to `service-ips`. A packet is looked
// up in `service-ips`, `range-ports` and `range-blocks`, in this order. If one commit deletes the
// old element and adds the new one between two of these lookups, the packet finds neither. Ports
// with source ranges are not moved, because the ranges must not become active after the port.
nft::Transaction TakeMovedPorts(nft::Transaction& transaction);

// Puts the elements in the order in which packets are least likely to miss a key whose data
// changes: new keys, then the deletion and the addition of each replaced key, one after the other,
// then other deletions. Linux before 6.17 (6.12: before 6.12.48) can miss such a key between its
// deletion and its addition. Elements of sets of ranges come last, in the given order, because the
// kernel rejects the addition of a range that overlaps another one. `transaction` contains its
// deletions before its additions.
void PutNewKeysFirst(nft::Transaction& transaction);

// Moves all slots of endpoints except the first slot of each group to the end of `transaction`, and
// the marker behind them. If a pick finds no endpoint in its slot, the rules use the first slot. If
// the transaction is then committed in parts, each Service has an endpoint early. `transaction`
// contains only additions.
void PutFirstSlotsFirst(nft::Transaction& transaction);

// Moves additions of source ranges from `transaction` to the result, if their load balancer IP is
// restricted by the transaction and not before, and if the transaction does not replace the set of
// ranges. Within one commit, the kernel makes new ranges visible after all other elements, so
// packets would be dropped.
nft::Transaction TakeSourceRanges(nft::Transaction& transaction);

// Moves these additions from `transaction` to the result: load balancer IPs with restricted
// sources, if the transaction does not add their source ranges, and with `cluster_ips` also
// clusterIPs. Packets look up both before the Service. If one commit adds them and the Service
// between these lookups, a packet reaches the Service although its source may not use it, or
// without masquerade. Call after TakeSourceRanges().
nft::Transaction TakeRestrictions(nft::Transaction& transaction, bool cluster_ips = false);

}  // namespace svcmap::proxy
