// Stores all objects received from the controller, which are the input for the desired state. Keeps
// a list of the Services that changes have made dirty (dirty_services.h).
//
// Not thread-safe. The reconcile loop owns the Store. The stored objects are immutable.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "proxy/state/claims.h"
#include "proxy/state/dirty_services.h"
#include "proxy/state/objects.h"

namespace svcmap::proxy {

struct SliceKeyLess {
  using is_transparent = void;
  static const std::string& KeyOf(const std::string& key) { return key; }
  static const std::string& KeyOf(const std::shared_ptr<const EndpointSlice>& slice) {
    return slice->key;
  }
  bool operator()(const auto& a, const auto& b) const { return KeyOf(a) < KeyOf(b); }
};

// A Service with its EndpointSlices. A Service may exist without EndpointSlices, and EndpointSlices
// may exist without their Service (S-28).
struct ServiceEntry {
  std::shared_ptr<const Service> service;
  // The revision at which `service` was stored first. Updates of the Service do not change this
  // revision.
  uint64_t first_seen = 0;
  absl::btree_set<std::shared_ptr<const EndpointSlice>, SliceKeyLess> slices;
  size_t endpoints[2] = {};  // Number of endpoints in `slices`, by Index(Family).
  uint64_t slots[2] = {};    // Sum of SlotCount() over `slices`, by Index(Family).
};

// Returns the number of ports times the number of endpoints.
uint64_t SlotCount(const EndpointSlice& slice);

// Returns the number of map elements of a Service port at one address.
size_t PortElementCount(const ServicePort& port);

// Return a measure for the memory of the map elements that an object causes. An endpoint counts
// once for each port. With weight W, an endpoint counts W times, because it can use W slots. An
// address of a Service counts kElementsPerAddress times for each port, because a port needs about
// four times the memory of an endpoint. nodePorts do not count. With picks by hash, each port also
// counts CountedTableSize() for each family and endpoint set.
inline constexpr uint64_t kElementsPerAddress = 4;
// Returns the size of a hash table before the number of endpoints is known, or 0 without hash
// tables.
uint64_t CountedTableSize(const Service& service);
uint64_t ElementCount(const Service& service);
uint64_t ElementCount(const EndpointSlice& slice);

// Digest of a set of objects, independent of their order. Equal sets of names and messages have
// equal tokens. Tokens are not resistant to deliberate collisions, because the hash is not
// cryptographic.
using StateToken = std::array<uint64_t, 2>;

// Returns the size of an object as counted by Store::bytes().
inline uint64_t ObjectBytes(const std::string& key, const std::string& message) {
  return key.size() + message.size();
}

// Changes of a Service that can make handshakes of clients stale (proxy/conntrack).
struct ServiceMoves {
  // Addresses or EndpointSlices were added or removed, or an endpoint or a port has left a slice.
  bool any = false;
  // Addresses of endpoints that are new in a slice.
  std::vector<IpAddress> added;
  // TCP endpoints that have left a slice. They may be in another slice.
  absl::flat_hash_set<std::pair<IpAddress, uint16_t>> left;
};

// Numbers of objects that the end of a snapshot would remove. For example, a controller with an
// empty cache, or a controller of another cluster, sends a snapshot that would remove most objects
// of a node.
struct SnapshotLoss {
  struct Part {
    size_t lost = 0;
    size_t before = 0;  // Number before the snapshot.
  };
  Part kinds[4];           // Objects, by Index(Kind).
  Part with_endpoints;     // Services with endpoints.
  Part previous_services;  // Services with endpoints in the rules of the previous run.
};

// LossBeyond() ignores a Part if Part::before is smaller than this number.
inline constexpr size_t kMinBoundedObjects = 20;

// Returns each loss of at least `percent` of the objects of one kind, such as "95 of 100 Services,
// 190 of 200 EndpointSlices". Ignores kinds with fewer than kMinBoundedObjects objects. Returns ""
// if there is no such loss, or if `percent` is 0.
std::string LossBeyond(const SnapshotLoss& loss, unsigned percent);

class Store {
 public:
  // Applies one change. `sequence` is the number of the change and never decreases. Returns false
  // if the object is equal to the stored object.
  bool Apply(const Change& change, uint64_t sequence);

  // Sets the current revision of the kernel's tables, which becomes ServiceEntry::first_seen of new
  // Services. New Services of a snapshot have the revision at the start of the snapshot, so that
  // the order of its objects does not matter.
  void SetRevision(uint64_t revision) { revision_ = revision; }

  // Between BeginSnapshot and EndSnapshot, all objects named by applied changes and by
  // AddToSnapshot() belong to the snapshot. EndSnapshot removes all other objects, and returns
  // their number. A second BeginSnapshot discards the open snapshot.
  //
  // If a change in a snapshot removes all usable endpoints of a stored EndpointSlice, EndSnapshot
  // applies the change, because the change removes as many endpoints as the removal of the
  // EndpointSlice.
  void BeginSnapshot();
  void AddToSnapshot(Kind kind, const std::string& key);
  KindCounts EndSnapshot(uint64_t sequence);
  // Discards the open snapshot without removing objects.
  void AbandonSnapshot() { progress_.snapshot.reset(); }
  // Call ForgetSnapshots when the stored objects are complete. LossOfSnapshot() then compares the
  // next snapshot with the stored objects, and not with the objects before an abandoned snapshot.
  void ForgetSnapshots() { progress_.base.reset(); }
  bool in_snapshot() const { return progress_.snapshot.has_value(); }
  // Returns how many objects EndSnapshot would remove. Counts only objects that were stored before
  // the open snapshot and before the abandoned snapshots that directly preceded it. Objects that
  // these snapshots added do not count. Iterates over all objects.
  SnapshotLoss LossOfSnapshot() const;
  // Returns the number of Services with usable endpoints, without those that the end of the open
  // snapshot would remove. Iterates over all Services.
  size_t ServicesWithEndpoints() const;
  // Numbers of stored objects.
  struct Amounts {
    KindCounts objects = {};
    size_t with_endpoints = 0;  // Services, as in ServicesWithEndpoints().
  };
  Amounts CountObjects() const;  // Iterates over all Services.
  // Returns a number that grows when LossOfSnapshot() may have become smaller.
  size_t snapshot_size() const {
    return progress_.snapshot ? progress_.snapshot->keys.size() - progress_.snapshot->waiting.size()
                              : 0;
  }
  // EndTrial() undoes all changes since BeginTrial(). The cost of EndTrial() is proportional to the
  // number of changes. A trial may begin only if no Service is dirty and no snapshot is open.
  void BeginTrial();
  void EndTrial();

  // Returns the objects that have changed since the previous call.
  absl::btree_set<std::pair<Kind, std::string>> TakeTouched() {
    return std::exchange(progress_.touched, {});
  }
  // Returns the token of all stored objects.
  const StateToken& token() const { return progress_.token; }
  // Returns the change that would restore the object to its stored state.
  Change Stored(Kind kind, const std::string& key) const;
  // Returns the last accepted version of an EndpointSlice as received, serialized, even if this
  // version waits for the end of the snapshot. Changes of single endpoints must be computed from
  // this version. Returns null if the EndpointSlice is not stored.
  const std::string* FindLatestSlice(const std::string& key) const;

  DirtyServices& dirty() { return progress_.dirty; }
  const DirtyServices& dirty() const { return progress_.dirty; }
  // Marks each Service for which `affected` returns true as dirty. MarkDirtyIf iterates over all
  // Services.
  void MarkDirtyIf(const std::function<bool(const ServiceEntry&)>& affected);
  // Marks one Service as dirty. The Service does not need to exist. `sequence` is 0 if no batch
  // caused the change.
  void MarkDirty(const std::string& key, uint64_t sequence);
  // Starts recording ServiceMoves.
  void KeepMoves() { keep_moves_ = true; }
  // Returns the recorded moves of the Service since the previous call.
  ServiceMoves TakeMoves(const std::string& key);
  // True if an address may have moved between Services since the list of dirty Services was last
  // empty. If addresses_moved() is true, all dirty Services must be programmed in one transaction.
  bool addresses_moved() const { return progress_.moved; }

  const ServiceEntry* Find(const std::string& key) const;
  const Claims& claims() const { return claims_; }
  // Includes entries without a Service. service_count() is the number of Services.
  const absl::flat_hash_map<std::string, ServiceEntry>& services() const { return services_; }
  const absl::flat_hash_map<std::string, std::shared_ptr<const EndpointSlice>>& slices() const {
    return slices_;
  }
  const absl::btree_map<std::string, std::shared_ptr<const Node>>& nodes() const { return nodes_; }
  const absl::btree_map<std::string, std::shared_ptr<const ServiceCidr>>& service_cidrs() const {
    return service_cidrs_;
  }
  // Version that increases with each change to a Node or ServiceCIDR.
  uint64_t node_version() const { return progress_.node_version; }
  // Returns the number of the last change to a Node or ServiceCIDR since the previous call, or 0.
  uint64_t TakeNodeSequence() { return std::exchange(node_sequence_, 0); }

  void ForEachObject(const std::function<void(Kind, const std::string& key)>& fn) const;
  size_t service_count() const { return service_count_; }
  // Total size of all stored objects as received, including their names.
  uint64_t bytes() const { return bytes_; }
  // Sum of ElementCount() over all Services and EndpointSlices.
  uint64_t elements() const { return elements_; }

 private:
  struct Snapshot {
    uint64_t revision = 0;  // Revision at the start of the snapshot.
    bool removes = false;   // True if objects were stored at the start of the snapshot.
    // Objects in the snapshot, in the form "KIND key". Empty unless `removes` is true.
    absl::flat_hash_set<std::string> keys;
    // Changes that EndSnapshot applies, by the key of their EndpointSlice.
    absl::btree_map<std::string, Change> waiting;
  };

  // The objects that were stored before the open snapshot and before the abandoned snapshots that
  // directly preceded it.
  struct Base {
    Amounts amounts;
    absl::flat_hash_set<std::string> added;  // Objects that were added later, as in Snapshot::keys.
  };

  // The state that EndTrial() restores without undoing each change.
  struct Progress {
    uint64_t node_version = 0;
    StateToken token = {};
    absl::btree_set<std::pair<Kind, std::string>> touched;
    DirtyServices dirty;
    absl::flat_hash_map<std::string, ServiceMoves> moves;  // Moves of dirty Services.
    size_t added = 0;                                      // Number of added addresses in `moves`.
    // True if any Service has released an address since the list of dirty Services was last empty.
    bool released = false;
    bool moved = false;
    std::optional<Snapshot> snapshot;
    std::optional<Base> base;  // From the start of a snapshot until a snapshot has ended.
  };

  struct Trial {
    std::vector<Change> undo;  // Changes that undo the trial, in reverse order.
    Progress before;
  };

  bool Replace(const Change& change, uint64_t sequence);
  // Returns true if the end of the open snapshot can remove objects.
  bool Removes() const { return progress_.snapshot && progress_.snapshot->removes; }
  // Returns true if the change waits for EndSnapshot.
  bool FollowSnapshot(const Change& change);
  bool KeepsEndpoints(const std::string& key, const ServiceEntry& entry) const;
  void ForEachUnlisted(const std::function<void(Kind, const std::string&)>& fn) const;
  void CountSlice(const EndpointSlice& slice, int sign);
  bool ApplyService(const Change& change, uint64_t sequence);
  bool ApplySlice(const Change& change, uint64_t sequence);
  void DropIfEmpty(const std::string& key);
  void NoteMove(const std::string& key);
  void NoteMoves(const EndpointSlice* before, const EndpointSlice* after);
  // Records that the object has changed. `before` and `after` are the object's old and new
  // messages, or null if the object does not exist.
  void Touch(const Change& change, const std::string* before, const std::string* after);

  absl::flat_hash_map<std::string, ServiceEntry> services_;
  absl::flat_hash_map<std::string, std::shared_ptr<const EndpointSlice>> slices_;
  absl::btree_map<std::string, std::shared_ptr<const Node>> nodes_;
  absl::btree_map<std::string, std::shared_ptr<const ServiceCidr>> service_cidrs_;
  size_t service_count_ = 0;
  uint64_t node_sequence_ = 0;
  Claims claims_;
  uint64_t revision_ = 0;
  uint64_t bytes_ = 0;
  uint64_t elements_ = 0;
  bool keep_moves_ = false;
  Progress progress_;
  std::optional<Trial> trial_;
};

}  // namespace svcmap::proxy
