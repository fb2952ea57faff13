// svcmap-bench-libnftables: executes nft transactions with libnftables for svcmap-bench. A separate
// program, because libnftables is GPL-2.0-only and svcmap-bench is distributed. This program is not
// installed.
//
// Connects to the Unix socket argv[1]. Each request is a length and a transaction, each response an
// exit status, a length and the error text. All numbers are uint64_t in the byte order of the
// machine. One context of libnftables executes all transactions, so that libnftables can keep its
// cache.
#include <nftables/libnftables.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace {

int Connect(const char* path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof(address.sun_path)) return -1;
  std::strcpy(address.sun_path, path);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0 ||
      ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return -1;
  }
  return socket;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: svcmap-bench-libnftables SOCKET (svcmap-bench runs it)\n");
    return 2;
  }
  const int socket = Connect(argv[1]);
  if (socket < 0) {
    std::perror(argv[1]);
    return 1;
  }
  nft_ctx* context = nft_ctx_new(NFT_CTX_DEFAULT);
  if (context == nullptr || nft_ctx_buffer_output(context) != 0 ||
      nft_ctx_buffer_error(context) != 0) {
    std::fprintf(stderr, "libnftables: no context\n");
    return 1;
  }
  std::FILE* const requests = fdopen(socket, "r");
  std::FILE* const responses = fdopen(dup(socket), "w");
  uint64_t size = 0;
  std::string transaction;
  while (std::fread(&size, sizeof(size), 1, requests) == 1) {
    transaction.resize(size);
    if (std::fread(transaction.data(), 1, size, requests) != size) return 1;
    const int status = nft_run_cmd_from_buffer(context, transaction.c_str());
    const std::string error = status == 0 ? "" : nft_ctx_get_error_buffer(context);
    const uint64_t header[2] = {status == 0 ? 0u : 1u, error.size()};
    std::fwrite(header, sizeof(header), 1, responses);
    std::fwrite(error.data(), 1, error.size(), responses);
    if (std::fflush(responses) != 0) return 1;
  }
  nft_ctx_free(context);
  return 0;
}
