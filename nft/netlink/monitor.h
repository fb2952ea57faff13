// Listens to what nf_tables tells about changes of our tables that others made, and tells the
// changes that are ours from theirs by the port they were sent from.
//
// Nothing is missed without being said: each commit of anybody adds one to the generation id, and
// the notification that ends it carries the id. Where one is missing, the kernel reports lost
// notifications, or the id has moved and nothing was heard, a ForeignChange with `lost` is handed
// out, over a fresh socket if need be.
//
// A listener makes the kernel write a notification per element, so Pause and Resume leave and join
// the group around large batches; who pauses closes the gap with the generation id.
//
// Runs a thread of its own, on which all callbacks are called.
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
  // How often the generation id is compared with what was heard.
  std::chrono::milliseconds check_interval{1000};
  // How long what was committed may stay unheard.
  std::chrono::milliseconds patience{2000};
  SocketFaults* faults = nullptr;
};

class Monitor {
 public:
  using OnChange = std::function<void(const ForeignChange&)>;

  // Opens its sockets in the caller's network namespace. `on_change` must not wait for anything
  // that waits for a commit of ours.
  static absl::StatusOr<std::unique_ptr<Monitor>> Start(TableSpecs tables, OnChange on_change,
                                                        MonitorOptions options);
  ~Monitor();

  // The rest may be called on any thread.

  // What is sent from this port is ours. To be called before anything is.
  void AddOwnPort(uint32_t port_id);

  // Between them nothing is heard. After Resume one of the next two says what happened meanwhile.
  void Pause();
  void Resume();
  // The id went from `before` to `after`, by commits of ours alone if `explained`.
  void CloseGap(uint32_t before, uint32_t after, bool explained);
  void CloseUnknownGap();

  // Up to this generation everything was handed out.
  uint32_t reported() const { return reported_; }

  // False once it has been without a socket, or a commit, whosever, has stayed unheard, for about
  // twice MonitorOptions::patience. After the latter it takes a commit that is heard to be alive
  // again.
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
  bool HeardUpTo(uint32_t generation) const;

  const MonitorOptions options_;
  const OnChange on_change_;
  const UniqueFd wake_;

  // The monitor's thread only.
  ChangeReader reader_;
  Session questions_;
  std::optional<uint32_t> awaited_;  // Seen as the kernel's generation, not heard of yet...
  Clock::time_point awaited_since_;  // ...since then.
  Clock::time_point next_check_;
  Clock::time_point last_start_over_;
  std::optional<std::string> start_over_;  // To be done, and why.
  bool heard_all_ = true;                  // Nothing is queued.
  bool deaf_ = false;                      // Until something is heard.

  std::atomic<uint32_t> reported_ = 0;
  std::atomic<Clock::rep> last_well_ = 0;  // When nothing was known to be unheard.

  std::mutex mutex_;              // Of what follows.
  std::optional<Socket> socket_;  // Replaced and joined under it; read by the thread without it.
  bool stop_ = false;
  bool listening_ = true;  // False between Pause and Resume.
  bool gap_open_ = false;  // From Pause to the closing of the gap.
  std::string broken_;     // Why the thread has to start over; empty: it need not.
  std::deque<Gap> gaps_;
  std::vector<uint32_t> own_ports_;

  std::thread thread_;
};

}  // namespace svcmap::nft
