// The writer of the objects below a prefix in etcd, from which svcmap-etcd of each node reads them
// (docs/fleet.md). A Store is an elected writer. `svcmapctl fleet apply` uses the functions in the
// second part, which write without an election.
//
// - Each transaction compares and writes the head, so it fails after a write of another writer.
// - A transaction contains at most 119 objects and about 1 MiB. A Service and its EndpointSlices
//   are in one transaction if they fit. Otherwise, endpoints are added first and removed last.
// - Only differences from the objects in etcd are written, also after a restart of the writer.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "api/convert/convert.h"
#include "api/convert/kinds.h"
#include "api/fleet/etcd_connection.h"
#include "api/fleet/node_status.h"

namespace svcmap::fleet {

// A version of an object.
struct Version {
  proxy::Kind kind;
  std::string name;   // "shop/web", or "n1" for cluster-scoped kinds.
  std::string owner;  // Name of the Service if the object is an EndpointSlice, otherwise `name`.
  std::string value;  // Encoding of the reduced object.
};
using Versions = std::map<std::string, Version>;  // By the key below the prefix.

struct Change {
  enum class What : uint8_t { kCreate, kReplace, kRemove };
  What what;
  std::string key;
  Version version;  // The removed version if `what` is kRemove.
};

// Adds an accepted object. Returns an error if the object is too large.
absl::Status AddVersion(const api::ConvertedChange& converted, Versions& versions);

// Returns the end of the next transaction, which begins at `begin`.
size_t EndOfTransaction(const std::vector<Change>& changes, size_t begin);

// Not thread-safe, and has no thread of its own. Calls block for at most 10 s for each endpoint and
// request.
class Store {
 public:
  // `prefix` must pass CheckPrefix. `name` is the name of this writer in PREFIX/leader.
  Store(EtcdServers servers, const std::string& prefix, std::string name);
  ~Store();  // Revokes the lease, so that another Store can be elected without delay.
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // ---- Elected writer ----

  // Makes etcd contain exactly `objects`, including Nodes. Takes part in the election first if this
  // Store is not elected, or if its lease has expired. Call Set at least every 5 s, even if the
  // objects have not changed: Set also renews the lease, which expires after 15 s, and writes the
  // head every 10 s.
  //
  // After an error, call Set again. FAILED_PRECONDITION: another Store is elected, or removals are
  // held, because they would remove at least half of at least 20 objects of one kind. ABORTED:
  // another writer has written; the next call replaces its changes. INVALID_ARGUMENT: an object is
  // rejected. The other objects are written, and the earlier version of the object stays in etcd,
  // without the endpoints that a rejected EndpointSlice does not list.
  absl::Status Set(const std::vector<v1::Object>& objects, bool accept_removals = false);

  uint64_t seq() const { return head_.seq; }  // Of the last transaction, for `fleet wait`.

  // ---- Parts of Set ----

  // Reads the head and all objects.
  absl::Status Read();
  // Returns a text about the elected Store, or "". Requires Read.
  const std::string& leader() const { return leader_; }
  const Versions& stored() const { return stored_; }

  bool Differs(const std::string& key, const Version& version) const;
  // Returns the changes after which etcd contains `desired`. With `prune`, removes other objects.
  std::vector<Change> Differences(const Versions& desired, bool prune) const;
  // Returns "20 of 30 services" if the removals would remove most objects of a kind, otherwise "".
  std::string LossOf(const std::vector<Change>& changes) const;

  // Lets Write also write if another Store is elected.
  void IgnoreLeader() { leader_revision_.reset(); }
  // Writes the changes [begin, end) in one transaction, with the epoch of the head.
  absl::Status Write(const std::vector<Change>& changes, size_t begin, size_t end);

 private:
  using Clock = std::chrono::steady_clock;

  // Sets `problem` if some objects are not written.
  absl::Status WriteDifferences(const std::vector<v1::Object>& objects, bool accept_removals,
                                absl::Status& problem);
  absl::Status Elect();       // Renews the lease if this Store is elected.
  absl::Status Beat();        // Renews the lease and writes the head if it is time to.
  absl::Status RenewLease();  // If it is time to.
  absl::Status GrantLease();

  const std::string prefix_, head_key_, leader_key_, leader_value_;
  EtcdConnection connection_;

  Head head_;
  int64_t head_revision_ = 0;  // 0: the head does not exist.
  Clock::time_point head_due_;
  Versions stored_;

  std::string leader_;
  // Compared by each transaction. 0: no Store may be elected. Absent: not compared.
  std::optional<int64_t> leader_revision_ = 0;
  bool elected_ = false;
  int64_t lease_ = 0;            // 0: no lease.
  Clock::time_point lease_due_;  // When the lease is renewed.
};

}  // namespace svcmap::fleet
