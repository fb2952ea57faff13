// Whether the kernel holds what an agent wants, as stock nft(8) sees it.
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

// `nft ARGUMENTS`, for example "-t list ruleset".
absl::StatusOr<std::string> Nft(const NetNs& netns, const std::string& arguments);

// The lists "elements = { ... }" of a listing: where the text between the braces lies, and the
// elements in order.
struct ElementsAt {
  size_t begin;
  size_t end;
  std::vector<std::string> elements;
};
std::vector<ElementsAt> FindElements(const std::string& listing);

// Elements as nft writes them, by set: "ip svcmap service-ips". Sets without any are left out.
using ElementLists = std::map<std::string, std::set<std::string>>;

// One parsed listing of all tables.
struct Listing {
  // Without elements and without the sizes of sets; sets and chains in the order of their names.
  std::string rules;
  ElementLists elements;
};
absl::StatusOr<Listing> ReadListing(const NetNs& netns);

// What a dump of the agent says of elements.
absl::StatusOr<ElementLists> ReadDump(Agent& agent, v1::DumpRequest::What what);

// OK if our tables hold the elements that the agent wants, and a marker, and everything else is as
// in `rules` (Listing::rules). What packets write is not compared. kDataLoss, with some of the
// differences, if not.
absl::Status CheckKernel(Agent& agent, const NetNs& netns, const std::string& rules);

}  // namespace svcmap::testing
