#include "nft/netlink/network_namespace.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include <cerrno>
#include <thread>

#include "nft/base/status.h"

namespace svcmap::nft {
namespace {

constexpr char kOfThisThread[] = "/proc/thread-self/ns/net";

}  // namespace

absl::StatusOr<NetworkNamespace> NetworkNamespace::OfThisThread() {
  UniqueFd fd(open(kOfThisThread, O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus(errno, std::string("open ") + kOfThisThread);
  return NetworkNamespace(std::move(fd));
}

absl::StatusOr<Socket> NetworkNamespace::OpenSocket(int protocol, SocketFaults* faults) const {
  struct stat mine = {}, here = {};
  if (fstat(fd_.get(), &mine) != 0 || stat(kOfThisThread, &here) != 0) {
    return ErrnoStatus(errno, "inspect the network namespace");
  }
  if (mine.st_ino == here.st_ino) return Socket::Open(protocol, faults);

  absl::StatusOr<Socket> socket = absl::InternalError("not opened");
  std::thread([&] {
    socket = setns(fd_.get(), CLONE_NEWNET) == 0
                 ? Socket::Open(protocol, faults)
                 : ErrnoStatus(errno, "enter the network namespace");
  }).join();
  return socket;
}

}  // namespace svcmap::nft
