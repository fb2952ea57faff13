// nft.h with libnftables, for test programs. Never link this file into a program that is
// distributed.
#include <nftables/libnftables.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "tests/support/nft.h"

namespace svcmap::testing {
namespace {

using NftContext = std::unique_ptr<nft_ctx, decltype(&nft_ctx_free)>;

// Returns the program that replaces libnftables, or null.
const char* OtherNft() { return std::getenv("SVCMAP_TEST_NFT"); }

// Runs commands and returns their output. Must be called inside the network namespace, because a
// context opens its netlink socket when it is created.
absl::StatusOr<std::string> RunCommands(unsigned int flags, const std::string& commands) {
  // libnftables has global state.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const NftContext context(nft_ctx_new(NFT_CTX_DEFAULT), nft_ctx_free);
  if (context == nullptr) return absl::InternalError("libnftables: no context");
  nft_ctx_output_set_flags(context.get(), flags);
  if (nft_ctx_buffer_output(context.get()) != 0 || nft_ctx_buffer_error(context.get()) != 0) {
    return absl::InternalError("libnftables: no buffers");
  }
  if (nft_run_cmd_from_buffer(context.get(), commands.c_str()) != 0) {
    return absl::UnknownError(
        absl::StrCat("nft: ", nft_ctx_get_error_buffer(context.get()), commands.substr(0, 200)));
  }
  return std::string(nft_ctx_get_output_buffer(context.get()));
}

}  // namespace

absl::Status RunNft(const NetNs& netns, const std::string& script) {
  if (OtherNft() != nullptr) return RunNftProgram(OtherNft(), netns, script);
  return netns.Run([&] { return RunCommands(0, script); }).status();
}

absl::StatusOr<std::string> ListNft(const NetNs& netns, const std::string& arguments) {
  if (OtherNft() != nullptr) return ListNftProgram(OtherNft(), netns, arguments);
  static const std::map<char, unsigned int> kFlags = {{'a', NFT_CTX_OUTPUT_HANDLE},
                                                      {'n', NFT_CTX_OUTPUT_NUMERIC_ALL},
                                                      {'s', NFT_CTX_OUTPUT_STATELESS},
                                                      {'t', NFT_CTX_OUTPUT_TERSE},
                                                      {'y', NFT_CTX_OUTPUT_NUMERIC_PRIO}};
  unsigned int flags = 0;
  std::string command = arguments;
  // An option consists of a hyphen, a letter and a space.
  for (; command.size() > 3 && command[0] == '-'; command.erase(0, 3)) {
    const auto flag = kFlags.find(command[1]);
    if (flag == kFlags.end() || command[2] != ' ') {
      return absl::InvalidArgumentError("nft option not supported: " + arguments);
    }
    flags |= flag->second;
  }
  return netns.Run([&] { return RunCommands(flags, command); });
}

}  // namespace svcmap::testing
