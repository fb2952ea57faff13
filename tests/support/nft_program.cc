// nft.h with the nft program, for programs that are distributed.
#include "tests/support/nft.h"

namespace svcmap::testing {

absl::Status RunNft(const NetNs& netns, const std::string& script) {
  return RunNftProgram("nft", netns, script);
}

absl::StatusOr<std::string> ListNft(const NetNs& netns, const std::string& arguments) {
  return ListNftProgram("nft", netns, arguments);
}

}  // namespace svcmap::testing
