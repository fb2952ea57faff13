#include "tests/bench/opponents/kube_proxy_rules.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proxy/names/kube_names.h"
#include "tests/support/process.h"

namespace svcmap::bench {
namespace {

constexpr std::chrono::seconds kListingPatience{60};

// Returns the output of the command, or an empty string if the command fails, because nft and
// iptables fail for objects that do not exist.
absl::StatusOr<std::string> Listed(const testing::NetNs& netns, const std::string& line) {
  absl::StatusOr<testing::CommandResult> result =
      testing::RunCommand({.argv = absl::StrSplit(line, ' '), .netns = &netns}, kListingPatience);
  if (!result.ok()) return result.status();
  return result->exit.ok() ? std::move(result->out) : "";
}

// Returns true if `listing` contains `text`, followed by a character that cannot be part of a
// number.
bool HasEntry(const std::string& listing, const std::string& text) {
  for (size_t at = listing.find(text); at != std::string::npos; at = listing.find(text, at + 1)) {
    const size_t end = at + text.size();
    if (end == listing.size() || !absl::ascii_isdigit(static_cast<uint8_t>(listing[end]))) {
      return true;
    }
  }
  return false;
}

size_t CountOf(const std::string& listing, const std::string& text) {
  size_t count = 0;
  for (size_t at = listing.find(text); at != std::string::npos; at = listing.find(text, at + 1)) {
    ++count;
  }
  return count;
}

class RuleReader {
 public:
  RuleReader(const testing::NetNs& netns, KubeProxyMode mode, const ServicePort& port)
      : netns_(netns), nftables_(mode == KubeProxyMode::kNftables), port_(port) {}

  // Returns the listing of the chain with the port's endpoints, or an empty string if the chain
  // does not exist.
  absl::StatusOr<std::string> Chain() const {
    const std::string key = port_.Key();
    if (nftables_) {
      return Listed(
          netns_, absl::StrCat("nft list chain ", Family4() ? "ip" : "ip6", " kube-proxy service-",
                               proxy::KubeChainName(key, port_.port_name, port_.protocol)));
    }
    return Listed(netns_,
                  absl::StrCat(Iptables(), " -t nat -S KUBE-SVC-",
                               proxy::KubeServiceHash(key, port_.port_name, port_.protocol)));
  }

  absl::StatusOr<bool> Rejected() const {
    const std::string_view protocol = proxy::ProtocolName(port_.protocol);
    const absl::StatusOr<std::string> listing =
        nftables_
            ? Listed(netns_, absl::StrCat("nft get element ", Family4() ? "ip" : "ip6",
                                          " kube-proxy no-endpoint-services { ",
                                          port_.cluster_ip.ToString(), " . ",
                                          absl::AsciiStrToLower({protocol.data(), protocol.size()}),
                                          " . ", port_.port, " }"))
            : Listed(netns_, absl::StrCat(Iptables(), " -t filter -S KUBE-SERVICES"));
    if (!listing.ok()) return listing.status();
    return nftables_
               ? !listing->empty()
               : listing->find("\"" + port_.Text() + " has no endpoints\"") != std::string::npos;
  }

  bool HasAllEndpoints(const std::string& chain) const {
    for (const BenchEndpoint& endpoint : port_.endpoints) {
      if (!HasEntry(chain, EntryOf(endpoint.address))) return false;
    }
    const size_t count = port_.endpoints.size();
    return nftables_ ? HasEntry(chain, absl::StrCat("numgen random mod ", count))
                     : CountOf(chain, " -> ") == count;
  }

 private:
  bool Family4() const { return port_.family() == Family::kIpv4; }
  const char* Iptables() const { return Family4() ? "iptables -w" : "ip6tables -w"; }

  std::string EntryOf(const proxy::EndpointAddress& endpoint) const {
    if (!nftables_) return " -> " + proxy::EndpointText(endpoint);
    if (port_.affinity_seconds == 0) {
      return absl::StrCat(" : ", endpoint.ip.ToString(), " . ", endpoint.port);
    }
    return " : goto endpoint-" +
           proxy::KubeEndpointChainName(port_.Key(), port_.port_name, port_.protocol, endpoint);
  }

  const testing::NetNs& netns_;
  const bool nftables_;
  const ServicePort& port_;
};

}  // namespace

absl::StatusOr<bool> IsProgrammed(const testing::NetNs& netns, KubeProxyMode mode,
                                  const ServicePort& port) {
  const RuleReader rules(netns, mode, port);
  if (port.endpoints.empty()) return rules.Rejected();
  const absl::StatusOr<std::string> chain = rules.Chain();
  if (!chain.ok()) return chain.status();
  return rules.HasAllEndpoints(*chain);
}

absl::StatusOr<bool> IsGone(const testing::NetNs& netns, KubeProxyMode mode,
                            const ServicePort& port) {
  const RuleReader rules(netns, mode, port);
  const absl::StatusOr<std::string> chain = rules.Chain();
  if (!chain.ok()) return chain.status();
  if (CountOf(*chain, " -> ") + CountOf(*chain, "numgen random") != 0) return false;
  const absl::StatusOr<bool> rejected = rules.Rejected();
  if (!rejected.ok()) return rejected.status();
  return !*rejected;
}

}  // namespace svcmap::bench
