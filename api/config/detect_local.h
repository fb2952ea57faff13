// Options for the detection of traffic from local pods, as in kube-proxy (S-64..S-68). Pure
// functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "proxy/ruleset/table.h"

namespace svcmap::api {

inline constexpr char kClusterCidrMode[] = "ClusterCIDR";
inline constexpr char kNodeCidrMode[] = "NodeCIDR";
inline constexpr char kBridgeMode[] = "BridgeInterface";
inline constexpr char kPrefixMode[] = "InterfaceNamePrefix";

// Names of the settings in error messages: flags or fields of the configuration file.
struct DetectLocalNames {
  std::string cluster_cidr = "--cluster-cidr";
  std::string bridge_interface = "--pod-bridge-interface";
  std::string interface_name_prefix = "--pod-interface-name-prefix";
};

// Only the field that belongs to `mode` is used.
struct DetectLocalFlags {
  std::string mode = kClusterCidrMode;
  // "10.244.0.0/16" or "10.244.0.0/16,fd00:10:244::/56": at most one CIDR per IP family (S-69).
  std::string cluster_cidr;
  std::string bridge_interface;
  std::string interface_name_prefix;
};

// Returns `options` with the parsed flags.
absl::StatusOr<proxy::RulesetOptions> ParseDetectLocal(const DetectLocalFlags& flags,
                                                       const DetectLocalNames& names = {},
                                                       proxy::RulesetOptions options = {});

}  // namespace svcmap::api
