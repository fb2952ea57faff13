// A fake HTTPS API server for svcmap-kube, which runs in the test process, optionally in a network
// namespace. The server supports get, list and watch of Services, EndpointSlices, Nodes and
// ServiceCIDRs in protobuf, JSON patches of the taints of Nodes, and the creation of Events in
// JSON. Tests can inject faults.
//
//   ASSERT_OK_AND_ASSIGN(auto server, FakeApiServer::Start(&node.netns()));
//   server->Put({AService("shop/web")..., ASlice("shop/web")...});
//   ASSERT_OK(server->WriteKubeconfig(path));
//   server->Fail({.what = Fault::What::kStatus, .code = 503});
//
// Thread-safe, except for Stop and StartAgain, which must be called by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "svcmap/v1/control.pb.h"
#include "tests/support/builders.h"
#include "tests/support/certificates.h"
#include "tests/support/kube_encoding.h"
#include "tests/support/netns.h"

namespace svcmap::testing {

// A fault that affects all requests until Heal().
struct Fault {
  enum class What : uint8_t {
    kStatus,  // Returns an error response with `code` and a metav1.Status as body.
    // Returns a complete HTTP response whose body contains only the first half of the list or
    // event.
    kTruncate,
    kHang,  // Never answers lists. Watches start but send no events.
  };
  enum class Where : uint8_t { kEverywhere, kLists, kLaterPages, kWatches, kWrites };

  What what = What::kStatus;
  Where where = Where::kEverywhere;
  // Affected collection, for example "services". If `collection` is empty, the fault affects all
  // collections.
  std::string collection = {};
  int code = 500;
};

// A received request for a collection, or for the creation of an Event.
struct SeenRequest {
  std::string method;
  std::string path;
  std::map<std::string, std::string> query;
  std::map<std::string, std::string> headers;  // Header names are in lower case.
  int answered = 0;  // HTTP status of the response. 0 until the server has responded.

  bool watch() const { return query.count("watch") > 0; }
};

class FakeApiServer {
 public:
  // Listens on a free port of 127.0.0.1 in `netns` (null: the caller's namespace).
  static absl::StatusOr<std::unique_ptr<FakeApiServer>> Start(const NetNs* netns = nullptr);
  ~FakeApiServer();

  // ---- The cluster ----

  // Adds or updates objects, including their metadata such as labels and annotations.
  void Put(const Objects& objects);
  void Remove(const std::vector<v1::ObjectRef>& refs);  // Deletes objects, which must exist.
  Objects objects() const;                              // Returns all stored objects.
  std::vector<std::string> taints(const std::string& node) const;  // Keys of all taints.
  std::vector<std::string> events() const;                         // Created Events in JSON.

  // Simulates a compaction. Clients with an older version receive 410 (watches receive an ERROR
  // event) and must list again.
  void ForgetEvents();
  // Freezes the cache for lists until Heal(). Lists from resourceVersion 0 return the frozen state,
  // and lists that require a newer version return 504. The frozen cache does not affect watches.
  void FreezeCache();
  // Limits the objects per page, even if the client requests more. Unlike a real server, also
  // divides lists from resourceVersion 0 into pages.
  void AlwaysPage(int64_t objects);
  // Simulates Kubernetes before 1.31, in which ServiceCIDRs do not exist (404), and Services have
  // no field selectors (400).
  void BeBefore131();

  // Writes a kubeconfig with the server's CA. Overwrites the file.
  absl::Status WriteKubeconfig(const std::string& path) const;

  // Writes the server's certificate and key to files, for a proxy in front of the server.
  absl::Status WriteIdentity(const std::string& certificate, const std::string& key) const;

  uint16_t port() const;
  std::string url() const;  // Returns the server's URL, for example "https://127.0.0.1:40123".

  // ---- Faults ----

  // Closes all connections and rejects new connections.
  void Stop();
  // Restarts on the same port with the same objects, versions and events. Returns OK when the
  // server is ready.
  absl::Status StartAgain();
  // Adds a fault. Faults for watches also affect watches that are already open.
  void Fail(Fault fault);
  void Heal();  // Removes all faults and releases blocked requests.
  // Ends every watch, as if its timeoutSeconds had expired.
  void EndWatches();

  // ---- Received requests ----

  // Returns the last 10,000 requests for collections, oldest first.
  std::vector<SeenRequest> requests() const;
  // Number of list requests, including rejected requests.
  int lists(const std::string& collection) const;
  // Number of currently open watches of all collections.
  int open_watches() const;

 private:
  struct Impl;
  explicit FakeApiServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace svcmap::testing
