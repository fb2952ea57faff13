// Reads the handles of a chain's rules with nft.
#pragma once

#include <string>
#include <vector>

#include "tests/support/netns.h"
#include "tests/support/nft.h"
#include "tests/support/status_matchers.h"

namespace svcmap::testing {

// Returns the handles of all rules of a chain, in order. `table` is for example "ip svcmap".
// Returns one empty handle if the chain cannot be listed.
inline std::vector<std::string> RuleHandles(const NetNs& netns, const std::string& table,
                                            const std::string& chain) {
  const absl::StatusOr<std::string> listing =
      ListNft(netns, "-a list chain " + table + " " + chain);
  EXPECT_OK(listing);
  if (!listing.ok()) return {""};
  const std::string mark = " # handle ";
  std::vector<std::string> handles;
  size_t at = listing->find(mark);  // Skip the handle of the chain itself.
  while ((at = listing->find(mark, at + 1)) != std::string::npos) {
    const size_t begin = at + mark.size();
    handles.push_back(listing->substr(begin, listing->find('\n', begin) - begin));
  }
  return handles;
}

}  // namespace svcmap::testing
