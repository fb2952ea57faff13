// The API server of a cluster, as far as svcmap-kube and kubectl need it: HTTPS in the process of
// the test, in a network namespace if asked, with discovery, get, list and watch of Services,
// EndpointSlices, Nodes and ServiceCIDRs in protobuf and JSON, and with everything that goes wrong
// with one when a test says so.
//
//   ASSERT_OK_AND_ASSIGN(auto server, ApiServerDouble::Start(&node.netns()));
//   server->Put({AService("shop/web")..., ASlice("shop/web")...});
//   ASSERT_OK(server->WriteKubeconfig(path));
//   server->Fail({.what = Fault::What::kStatus, .code = 503, .retry_after = 1, .times = 2});
//
// Thread-safe, but for Stop and StartAgain, which one thread calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
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

// What goes wrong, for as many requests as `times` says.
struct Fault {
  enum class What : uint8_t {
    kStatus,      // Answered with `code`, a metav1.Status as body, and Retry-After.
    kNoProtobuf,  // 406 for whoever accepts protobuf.
    kTruncate,    // HTTP is complete, but the second half of the list, or of an event, is missing.
    kHang,        // Lists are never answered; watches are, and then stay silent.
    kErrorEvent,  // Watches: an ERROR event with `code`, then their end.
    kCutFrame,    // Watches: half an event, then the connection ends.
    kWrongContent,  // 200 with something else than what was asked for.
  };
  enum class Where : uint8_t { kEverywhere, kLists, kFirstPages, kLaterPages, kWatches };

  What what = What::kStatus;
  Where where = Where::kEverywhere;
  std::string collection = {};  // "services"; empty: any.
  int code = 500;
  int retry_after = 0;  // Seconds; 0: no such header.
  int times = -1;       // -1: until Heal().
};

// A request for a collection, as it came.
struct SeenRequest {
  std::string path;
  std::map<std::string, std::string> query;
  std::map<std::string, std::string> headers;  // Names in lower case.
  std::string client_certificate;              // Its common name; empty: none was shown.
  int answered = 0;                            // HTTP status; 0: not at all.

  bool watch() const { return query.count("watch") > 0; }
  std::string Query(const std::string& name) const {
    const auto found = query.find(name);
    return found == query.end() ? "" : found->second;
  }
};

class ApiServerDouble {
 public:
  // On 127.0.0.1 of `netns` (null: where the caller is), at a port of its own.
  static absl::StatusOr<std::unique_ptr<ApiServerDouble>> Start(const NetNs* netns = nullptr);
  ~ApiServerDouble();

  // ---- The cluster ----

  // Labels, annotations and so on are those of the objects' metadata.
  void Put(const Objects& objects);
  void Remove(const std::vector<v1::ObjectRef>& refs);  // All must be there.
  Objects objects() const;                              // All there are.
  uint64_t version() const;                             // resourceVersion of the last change.

  // Who has an older version than now has to list again, as after a compaction: 410, which a watch
  // is told by an ERROR event.
  void ForgetEvents();
  void KeepEvents(size_t count);  // Of each collection; 10,000 otherwise.

  // Every watch that is allowed bookmarks gets one so often. Real servers: a minute.
  void BookmarkEvery(std::chrono::milliseconds period);
  // Until Heal(), its cache stays as it is now, but for watches: lists from resourceVersion 0 are
  // of this state, and those that may not be older than a newer one are refused (504).
  void FreezeCache();
  // At most so many objects in a page, even where more are asked for. Also makes lists from
  // resourceVersion 0 come in pages: real servers give those whole.
  void AlwaysPage(int64_t objects);
  // Lists in pages that have begun cannot go on: 410.
  void ForgetPages();
  // As before Kubernetes 1.31: ServiceCIDRs are unknown (404), and so are the fields of Services
  // that they can be selected by (400).
  void BeBefore131();

  // ---- Credentials: everybody is let in until one of these is called ----

  // 401 without this bearer token, and without a certificate where those will do.
  void RequireToken(const std::string& token);
  void RequireClientCertificate();
  std::string ca() const;                                     // PEM
  KeyPair IssueClient(const std::string& common_name) const;  // Whom the server knows.

  struct Credentials {
    std::string token;       // Empty: see token_file.
    std::string token_file;  // Empty: none.
    KeyPair client = {};     // Empty: none. Goes into the file, as *-data.
  };
  // Its CA is in the file. Overwrites.
  absl::Status WriteKubeconfig(const std::string& path, const Credentials& credentials) const;
  absl::Status WriteKubeconfig(const std::string& path) const;

  uint16_t port() const;
  std::string url() const;  // "https://127.0.0.1:40123"

  // ---- Faults ----

  // Ends all connections at once, and refuses new ones.
  void Stop();
  // At the same port, with the objects, versions and events it had. OK if it runs.
  absl::Status StartAgain();
  // One more thing that goes wrong. Watches that run are struck, too, by what is for watches.
  void Fail(Fault fault);
  void Heal();  // All faults end; what hangs is let go.
  // Every watch ends, as it does after its timeoutSeconds.
  void EndWatches();

  // ---- What came ----

  std::vector<SeenRequest> requests() const;       // Of collections, the last 10,000, oldest first.
  int lists(const std::string& collection) const;  // Requests, those refused included.
  int watches(const std::string& collection) const;  // The same.
  int open_watches() const;                          // Just now, of all collections.

 private:
  struct Impl;
  explicit ApiServerDouble(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace svcmap::testing
