// Reads the state of a fleet from etcd, for the commands of `svcmapctl fleet`.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/cli/options.h"
#include "api/cli/session.h"
#include "api/fleet/node_status.h"

namespace svcmap::api {

inline constexpr std::chrono::seconds kEtcdTimeout{10};  // For each request.

// Prints why a request to etcd has failed, and returns the exit code.
ExitCode EtcdFailed(const absl::Status& status, const Session& session);

class FleetReader {
 public:
  // `options` must outlive the reader.
  explicit FleetReader(const FleetOptions& options)
      : options_(options), connection_(options.etcd) {}

  // Reads the head, the request and the names of the nodes.
  absl::Status ReadFleet();
  // Requires a successful ReadFleet.
  absl::StatusOr<fleet::Summary> ReadStatuses();
  absl::StatusOr<fleet::Summary> Read();  // ReadFleet and ReadStatuses.
  absl::Status WriteAsk();

  const fleet::Head& head() const { return head_; }
  uint64_t required() const { return required_; }

 private:
  const FleetOptions& options_;
  fleet::EtcdConnection connection_;
  fleet::Head head_;
  uint64_t required_ = 0;
  std::set<std::string> names_;
};

// Returns the problems of a node, such as "behind,silent", or "ok".
std::string StateText(const fleet::FleetNode& node);

}  // namespace svcmap::api
