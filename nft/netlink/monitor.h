// Watches nf_tables notifications for changes to svcmap's tables by other processes. The monitor
// recognizes commits of this process by the port id of the sending socket.
//
// Lost notifications are always detected: each commit by any process increments the generation id,
// and the notification at the end of a commit contains the id. In three cases the monitor reports a
// ForeignChange with `lost` set: a generation id is missing, the kernel reports lost notifications,
// or the id has changed without a notification. If necessary, the monitor opens a new socket before
// the report.
//
// While a process listens, the kernel sends a notification for each changed element. Therefore
// Pause leaves the multicast group before a large batch, and Resume joins the group again. After
// Resume, the caller reports the generation ids before and after the batch with CloseGap or
// CloseUnknownGap.
//
// The monitor has its own thread and calls all callbacks on this thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "nft/base/unique_fd.h"
#include "nft/model/foreign_change.h"
#include "nft/netlink/change_reader.h"
#include "nft/netlink/session.h"
#include "nft/netlink/socket.h"

namespace svcmap::nft {

struct MonitorOptions {
  // Interval at which the kernel's generation id is compared with the last notification.
  std::chrono::milliseconds check_interval{1000};
  // Maximum delay between a commit and its notification.
  std::chrono::milliseconds patience{2000};
  SocketFaults* faults = nullptr;
};

class Monitor {
 public:
  using OnChange = std::function<void(const ForeignChange&)>;

  // Start opens sockets in the caller's network namespace. `on_change` must not wait for a thread
  // that waits for a commit of this process.
  static absl::StatusOr<std::unique_ptr<Monitor>> Start(TableSpecs tables, OnChange on_change,
                                                        MonitorOptions options);
  ~Monitor();

  // The methods below are thread-safe.

  // Marks commits from this port as commits of this process. Call AddOwnPort before sending
  // anything from the port.
  void AddOwnPort(uint32_t port_id);

  // Between Pause and Resume, the monitor receives no notifications. After Resume, the caller must
  // call CloseGap or CloseUnknownGap.
  void Pause();
  void Resume();
  // Reports that the generation id changed from `before` to `after` during a pause. `explained` is
  // true if this process made all commits in this interval.
  void CloseGap(uint32_t before, uint32_t after, bool explained);
  void CloseUnknownGap();

  // Returns the generation id up to which all changes were reported.
  uint32_t reported() const { return reported_; }

  // Returns false if the monitor has had no socket for about twice MonitorOptions::patience. Also
  // returns false if the monitor has waited for the notification of a commit for this time. After a
  // missing notification, alive() returns true again as soon as the next notification arrives.
  bool alive() const;

 private:
  struct Gap {
    uint32_t before;
    uint32_t after;
    bool explained;
  };
  using Clock = std::chrono::steady_clock;

  Monitor(TableSpecs tables, OnChange on_change, MonitorOptions options, Session questions,
          UniqueFd wake);

  void Run();
  void Wake();
  void Listen();
  void Read(std::span<const uint8_t> datagram);
  void EndTransaction(const nlmsghdr* generation);
  void CrossGaps();
  void Check();
  void ReportLoss(const std::string& text);
  absl::Status Reopen();
  void StartOver(const std::string& text);
  void CloseSocket();
  void IsWell();
  void DrainQueue();
  bool IsOwn(uint32_t port_id);
  bool ReceivedUpTo(uint32_t generation) const;

  const MonitorOptions options_;
  const OnChange on_change_;
  const UniqueFd wake_;

  // Only the monitor's thread uses the following members.
  ChangeReader reader_;
  Session requests_;
  // The kernel's current generation id, if its notification has not arrived yet.
  std::optional<uint32_t> awaited_;
  Clock::time_point awaited_since_;  // Time at which `awaited_` was read.
  Clock::time_point next_check_;
  Clock::time_point last_start_over_;
  std::optional<std::string> start_over_;  // Reason for a pending restart of the monitor.
  bool received_all_ = true;               // True if the socket's queue is empty.
  // True from a missing notification until the next notification.
  bool receives_nothing_ = false;

  std::atomic<uint32_t> reported_ = 0;
  std::atomic<Clock::rep> last_well_ = 0;  // Last time when no notification was overdue.

  std::mutex mutex_;  // Protects the following members.
  // The mutex must be held to replace the socket or to join the multicast group. The monitor's
  // thread reads from the socket without the mutex.
  std::optional<Socket> socket_;
  bool stop_ = false;
  bool listening_ = true;  // False between Pause and Resume.
  bool gap_open_ = false;  // True from Pause until the gap is closed.
  std::string broken_;     // Reason for a restart of the monitor. Empty if no restart is needed.
  std::deque<Gap> gaps_;
  std::vector<uint32_t> own_ports_;

  std::thread thread_;
};

}  // namespace svcmap::nft
