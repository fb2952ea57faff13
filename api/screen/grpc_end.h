// Tells when gRPC has closed its end of a socket pair. gRPC closes its end after it has freed all
// calls of the connection. The other end of the pair shows only when gRPC stops reading and
// writing.
#pragma once

#include <sys/stat.h>

namespace svcmap::api {

class GrpcEnd {
 public:
  GrpcEnd() = default;  // An end that is not open.
  explicit GrpcEnd(int fd) : fd_(fd), inode_(InodeOf(fd)) {}

  bool is_open() const { return fd_ >= 0 && InodeOf(fd_) == inode_; }

 private:
  // The number of a closed descriptor is reused, but not together with the inode of its socket.
  static ino_t InodeOf(int fd) {
    struct stat found = {};
    return fstat(fd, &found) == 0 ? found.st_ino : 0;
  }

  int fd_ = -1;
  ino_t inode_ = 0;
};

}  // namespace svcmap::api
