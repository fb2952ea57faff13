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

// Runs nft with `arguments`, for example "-t list ruleset". The output omits the dormant tables
// that svcmapd creates for a short time, for example during an audit.
absl::StatusOr<std::string> Nft(const NetNs& netns, const std::string& arguments);

// One list "elements = { ... }" in nft's output, with the position of the text between the braces.
struct ElementsAt {
  size_t begin;
  size_t end;
  std::vector<std::string> elements;
};
std::vector<ElementsAt> FindElements(const std::string& listing);

// The elements of each set in nft's notation. The key is for example "ip svcmap service-ips". Empty
// sets have no entry.
using ElementLists = std::map<std::string, std::set<std::string>>;

// The parsed output of nft for all tables.
struct Listing {
  // The rules, without elements and set sizes. Sets and chains are sorted by name.
  std::string rules;
  ElementLists elements;
};
absl::StatusOr<Listing> ReadListing(const NetNs& netns);

// Returns the elements in a dump that the agent sends.
absl::StatusOr<ElementLists> ReadDump(Agent& agent, v1::DumpRequest::What what);

// Returns OK if the agent's tables contain the desired elements and a marker, and all other objects
// equal `rules` (Listing::rules). Ignores elements that packets add. Returns kDataLoss with some of
// the differences if the tables differ.
absl::Status CheckKernel(Agent& agent, const NetNs& netns, const std::string& rules);

}  // namespace svcmap::testing
