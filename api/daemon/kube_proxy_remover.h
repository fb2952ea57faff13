// --remove-kube-proxy: takes away what kube-proxy left in nf_tables and iptables, once our tables
// serve everything, so that no packet finds neither. Connections keep their translation, which
// connection tracking remembers.
//
// Does not fight: as long as a kube-proxy runs nothing is removed, and what comes back afterwards
// stays; both are said in the log, once for each reason. Nothing is removed either while there is
// something of kube-proxy's mode ipvs, or when we were told of no Service at all.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "proxy/reconcile/loop.h"

namespace svcmap::api {

class KubeProxyRemover {
 public:
  // `status`: of the loop; any thread may ask. Looks in the network namespace of the caller.
  explicit KubeProxyRemover(std::function<proxy::LoopStatus()> status);

 private:
  void Run(const std::stop_token& stop);
  bool Serving();
  // One look; true if nothing is left to be done soon.
  bool LookAndRemove();
  // As a warning, unless it was said last.
  void Say(const std::string& text);

  const std::function<proxy::LoopStatus()> status_;
  std::string said_;
  bool removed_ = false;  // Something.
  std::jthread thread_;  // Last: it uses the others, and ends before them.
};

}  // namespace svcmap::api
