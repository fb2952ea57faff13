// A connection to an etcd cluster, for svcmap-etcd and `svcmapctl fleet`.
#pragma once

#include <grpc/support/time.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/tls/tls_files.h"
#include "svcmap/etcd/v3/etcd.pb.h"

namespace svcmap::fleet {

struct EtcdServers {
  std::vector<std::string> endpoints;  // Results of ParseEndpoint.
  api::TlsFiles tls;
  // Interval of HTTP/2 pings. etcd permits a ping every 5 s. A dead peer is detected within 5 s
  // after a ping.
  std::chrono::seconds ping_interval{10};
};

// Returns the gRPC target of "http://host:port" or "https://host:port".
absl::StatusOr<std::string> ParseEndpoint(const std::string& url);

// Sets the endpoints from the values of --etcd-endpoints. Returns an error that names the flag if a
// URL is invalid, or if the schemes of the URLs do not match each other or the TLS files of
// `servers`.
absl::Status FinishServers(const std::vector<std::string>& urls, EtcdServers& servers);

// Returns an error that names `flag` if `prefix` is not a valid key prefix.
absl::Status CheckPrefix(const char* flag, const std::string& prefix);

// Returns an error if `status_prefix` is not a valid key prefix, or if the keys of a fleet below
// `prefix` would be below `status_prefix`, or the keys of statuses among them.
absl::Status CheckStatusPrefix(const std::string& prefix, const std::string& status_prefix);

// Returns a deadline for gRPC that changes of the system clock do not affect.
gpr_timespec DeadlineOf(std::chrono::steady_clock::time_point time);

// Begins with a random endpoint. Each new connection uses the next endpoint, and reads the TLS
// files again. Not thread-safe.
class EtcdConnection {
 public:
  explicit EtcdConnection(EtcdServers servers);

  absl::Status Connect();            // Does nothing if a connection exists.
  void Drop() { channel_.reset(); }  // The next call of Connect creates a new connection.
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // Requires a connection. `context` must have no deadline yet. The result contains a response for
  // each operation that etcd has executed.
  absl::StatusOr<etcdserverpb::TxnResponse> Txn(const etcdserverpb::TxnRequest& request,
                                                std::chrono::milliseconds timeout,
                                                grpc::ClientContext& context) const;

  // Connects if necessary, and calls `request` once for each endpoint until a call succeeds.
  absl::Status AtAnyEndpoint(const std::function<absl::Status()>& request);
  // Tries each endpoint once, so etcd may apply a write several times.
  absl::StatusOr<etcdserverpb::TxnResponse> TxnAtAnyEndpoint(
      const etcdserverpb::TxnRequest& request, std::chrono::milliseconds timeout);

  struct Range {
    std::string directory;  // Ends with a slash. All keys below it are read.
    int64_t keys_per_page;
    bool keys_only;
  };
  // Reads all keys in pages, each like TxnAtAnyEndpoint. Passes the part of each key after the
  // directory, and the value.
  absl::Status ReadAll(const Range& range, std::chrono::milliseconds timeout,
                       const std::function<void(std::string name, const std::string& value)>& take);

  // Returns an error with the host and the port of the endpoint.
  absl::Status ErrorOf(const grpc::Status& status) const;

 private:
  const EtcdServers servers_;
  size_t next_endpoint_;
  std::string endpoint_;
  std::shared_ptr<grpc::Channel> channel_;
};

// Adds a comparison to a transaction. The revision of a key that does not exist is 0.
void AddCompare(const std::string& key, int64_t mod_revision, etcdserverpb::TxnRequest& request);
// Adds a write of one key to a transaction.
void AddPut(const std::string& key, const std::string& value, etcdserverpb::TxnRequest& request);

}  // namespace svcmap::fleet
