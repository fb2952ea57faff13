// --remove-kube-proxy: takes away what kube-proxy left in nf_tables and iptables, once our tables
// serve everything, so that no packet finds neither. Connections keep their translation, which
// connection tracking remembers.
//
// Nothing is removed unless, right then,
// - somebody has told us in this life all that is to be served, with at least one Service, and all
//   of it is in the kernel and verified, and
// - no kube-proxy was seen in any look for some time, so that none is just being started again, and
// - there is no interface of kube-proxy's mode ipvs.
// Does not fight: what comes back afterwards stays until a kube-proxy was seen once more. Why
// something stays is said in the log, once for each reason.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "proxy/reconcile/loop.h"

namespace svcmap::api {

class KubeProxyRemover {
 public:
  // A kube-proxy that ended is started again at once, and after 10 s when it ends again.
  static constexpr std::chrono::seconds kAbsence{30};

  // `status`: of the loop; any thread may ask. `absence`: for how long no kube-proxy may be seen.
  // Looks in the network namespace of the caller.
  KubeProxyRemover(std::function<proxy::LoopStatus()> status, std::chrono::milliseconds absence);

 private:
  using Clock = std::chrono::steady_clock;

  void Run(const std::stop_token& stop);
  bool Absent();
  bool Serving();
  // One look; true if nothing is left to be done soon.
  bool LookAndRemove(const std::stop_token& stop);
  // As a warning, unless it was said last.
  void Say(const std::string& text);

  const std::function<proxy::LoopStatus()> status_;
  const std::chrono::milliseconds absence_;
  std::string said_;
  std::optional<Clock::time_point> absent_since_;  // Seen in no look since.
  bool rested_ = false;                            // Since, there was no look for long.
  bool removed_ = false;                           // Something, and no kube-proxy was seen since.
  std::jthread thread_;  // Last: it uses the others, and ends before them.
};

}  // namespace svcmap::api
