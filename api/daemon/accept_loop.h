// A thread that waits for connections on listening sockets. The TCP listener and the Unix listener
// use this class.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {

class AcceptLoop {
 public:
  // Accepts all waiting connections of a non-blocking socket. The loop's thread calls AcceptAll.
  // Returns false if accepting failed, for example because no file descriptor is left. After a
  // failure, the loop pauses for 100 ms, because connections that are closed during the pause free
  // file descriptors.
  using AcceptAll = std::function<bool(int socket)>;

  // The sockets must stay open until the loop is destroyed.
  static absl::StatusOr<std::unique_ptr<AcceptLoop>> Start(std::vector<int> sockets,
                                                           AcceptAll accept_all);
  ~AcceptLoop();  // `accept_all` is not called afterwards.

 private:
  explicit AcceptLoop(AcceptAll accept_all) : accept_all_(std::move(accept_all)) {}
  void Run(const std::vector<int>& sockets);

  const AcceptAll accept_all_;
  UniqueFd stop_;  // An eventfd that stops the thread.
  std::thread thread_;
};

}  // namespace svcmap::api
