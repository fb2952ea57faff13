// Implements --remove-kube-proxy. Removes kube-proxy's nftables tables and iptables chains after
// svcmapd has programmed all Services, so Services work without interruption. Established
// connections are unaffected, because connection tracking keeps their translation.
//
// After the start of svcmapd, the remover waits for a complete state with at least one Service from
// a controller. The remover also waits until this state is programmed and verified. In addition, no
// kube-proxy process may have been found for a minimum time, so that the remover does not act while
// kube-proxy is restarted. If the interface of kube-proxy's IPVS mode exists, the remover keeps
// kube-proxy's rules.
//
// Rules that reappear after the removal are kept until a kube-proxy process has been found again.
// The remover logs each reason for keeping rules only once.
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
  // Longer than the kubelet's restart delay. The kubelet restarts a terminated kube-proxy
  // immediately, and after 10 s if kube-proxy terminates again.
  static constexpr std::chrono::seconds kAbsence{30};

  // `status` returns the status of the reconcile loop and is called on the remover's thread.
  // `absence` is the minimum time without a kube-proxy process. Works in the caller's network
  // namespace.
  KubeProxyRemover(std::function<proxy::LoopStatus()> status, std::chrono::milliseconds absence);

 private:
  using Clock = std::chrono::steady_clock;

  void Run(const std::stop_token& stop);
  bool Absent();
  bool Serving();
  // Removes kube-proxy's rules if all conditions are met. Returns true if the next check may follow
  // after a long pause.
  bool FindAndRemove(const std::stop_token& stop);
  // Logs `line` as a warning unless `line` equals the previous warning. An empty `line` means that
  // there is nothing to report.
  void Log(const std::string& line);

  const std::function<proxy::LoopStatus()> status_;
  const std::chrono::milliseconds absence_;
  std::string reported_;
  // Time since which no kube-proxy process was found.
  std::optional<Clock::time_point> absent_since_;
  bool rested_ = false;   // True if the pause since the last check was long.
  bool removed_ = false;  // True if no kube-proxy process was found since rules were removed.
  std::jthread thread_;   // Destroyed first because the thread uses the other members.
};

}  // namespace svcmap::api
