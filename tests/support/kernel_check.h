// Compares the kernel's tables, as listed by stock nft(8), with an agent's desired state.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/support/agent.h"
#include "tests/support/netns.h"

namespace svcmap::testing {

// Runs `nft ARGUMENTS`, for example "-t list ruleset".
absl::StatusOr<std::string> Nft(const NetNs& netns, const std::string& arguments);

// One list "elements = { ... }" of a listing: the position of the text between the braces, and the
// elements in order.
struct ElementsAt {
  size_t begin;
  size_t end;
  std::vector<std::string> elements;
};
std::vector<ElementsAt> FindElements(const std::string& listing);

// The elements in nft's notation by set, for example "ip svcmap service-ips". Empty sets have no
// entry.
using ElementLists = std::map<std::string, std::set<std::string>>;

// One parsed listing of all tables.
struct Listing {
  // The rules without elements and set sizes. Sets and chains are sorted by name.
  std::string rules;
  ElementLists elements;
};
absl::StatusOr<Listing> ReadListing(const NetNs& netns);

// Returns the elements from a dump of the agent.
absl::StatusOr<ElementLists> ReadDump(Agent& agent, v1::DumpRequest::What what);

// Returns OK if the agent's tables contain its desired elements and a marker, and all other objects
// equal `rules` (Listing::rules). Elements that packets add are not compared. Otherwise returns
// kDataLoss with some of the differences.
absl::Status CheckKernel(Agent& agent, const NetNs& netns, const std::string& rules);

}  // namespace svcmap::testing
