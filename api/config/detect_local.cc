#include "api/config/detect_local.h"

#include <net/if.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "api/convert/quote.h"
#include "nft/types/ip_address.h"

namespace svcmap::api {
namespace {

// Checks an interface name or interface name prefix against the kernel's rules.
absl::Status CheckInterface(const std::string& setting, const std::string& name,
                            const std::string& mode) {
  const auto odd = [](unsigned char c) { return c <= ' ' || c == '/' || c == '*' || c == '"'; };
  if (name.empty()) {
    return absl::InvalidArgumentError(
        setting + ": Required value: must be set in detect-local mode " + Quote(mode));
  }
  if (name.size() >= IFNAMSIZ || std::any_of(name.begin(), name.end(), odd)) {
    return absl::InvalidArgumentError(setting + ": Invalid value: " + Quote(name) +
                                      ": must be an interface name (at most 15 characters, without "
                                      "spaces, '/', '*' or quotation marks)");
  }
  return absl::OkStatus();
}

absl::StatusOr<proxy::RulesetOptions> ParseClusterCidr(const std::string& text,
                                                       const std::string& setting,
                                                       proxy::RulesetOptions options) {
  if (text.empty()) return options;
  const std::vector<std::string> items = absl::StrSplit(text, ',');
  for (const std::string& item : items) {
    const std::optional<IpPrefix> prefix = IpPrefix::Parse(item);
    if (!prefix) {
      return absl::InvalidArgumentError(setting + ": Invalid value: " + Quote(item) +
                                        ": must be a CIDR, such as \"10.244.0.0/16\"");
    }
    auto& slot = options.cluster_cidr[Index(prefix->family())];
    if (slot) {
      return absl::InvalidArgumentError(
          setting + ": Invalid value: " + Quote(item) +
          ": must have at most one CIDR per IP family; this is the second " +
          std::string(FamilyName(prefix->family())) + " CIDR");
    }
    slot = *prefix;
  }
  return options;
}

}  // namespace

absl::StatusOr<proxy::RulesetOptions> ParseDetectLocal(const DetectLocalFlags& flags,
                                                       const DetectLocalNames& names,
                                                       proxy::RulesetOptions options) {
  if (flags.mode == kClusterCidrMode) {
    return ParseClusterCidr(flags.cluster_cidr, names.cluster_cidr, std::move(options));
  }
  if (flags.mode == kNodeCidrMode) {
    options.detect_local = proxy::DetectLocal::kNodeCidr;
    return options;
  }
  const bool bridge = flags.mode == kBridgeMode;
  const std::string& name = bridge ? flags.bridge_interface : flags.interface_name_prefix;
  const absl::Status status = CheckInterface(
      bridge ? names.bridge_interface : names.interface_name_prefix, name, flags.mode);
  if (!status.ok()) return status;
  options.detect_local = proxy::DetectLocal::kInterface;
  options.interface = bridge ? name : name + "*";
  return options;
}

}  // namespace svcmap::api
