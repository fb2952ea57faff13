#include "api/source/program.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <spdlog/spdlog.h>

#include <cstring>

#include "api/log/log_value.h"
#include "api/log/set_up_log.h"
#include "api/process/clock_watch.h"
#include "api/process/notify.h"

namespace svcmap::source {

void SetUpProgram(int verbosity) {
  api::SetUpLog(verbosity);
  // Keeps gRPC initialized until exit. Otherwise, gRPC 1.51 may wait up to 10 s for its poller at
  // shutdown if a socket was full before.
  grpc_init();
  // The sources log relevant errors themselves, so gRPC's own messages are only for debugging.
  gpr_set_log_function([](gpr_log_func_args* line) { spdlog::debug("gRPC: {}", line->message); });
}

int Fail(const absl::Status& status) {
  spdlog::critical("{}", std::string(status.message()));
  return 1;
}

sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

absl::Status AwaitEnd(const sigset_t& signals, const api::ConfigWatch* config) {
  constexpr timespec kClockInterval = {.tv_sec = 1, .tv_nsec = 0};
  api::ClockWatch clock;
  int signal = 0;
  while ((signal = sigtimedwait(&signals, nullptr, &kClockInterval)) < 0) clock.Check();
  if (config != nullptr && config->changed()) {
    api::NotifyStopping("the configuration file has changed; the rules stay in effect");
    return absl::AbortedError(
        "the configuration file has changed, exiting to be restarted with the new file; the rules "
        "stay in effect");
  }
  spdlog::info("stopping, rules stay in effect signal={}", api::LogValue(strsignal(signal)));
  api::NotifyStopping("stopping; the rules stay in effect");
  return absl::OkStatus();
}

PushOptions PushOptionsOf(const AgentOptions& options, const std::string& name) {
  PushOptions push;
  push.name = name;
  push.target = options.target;
  push.tls = options.tls;
  push.instance = options.instance;
  // An attempt to connect to a missing Unix socket is cheap.
  if (options.target.starts_with("unix:")) push.last_retry = std::chrono::seconds(1);
  push.on_synced = [] { api::NotifyReady("all objects are synced to svcmapd"); };
  return push;
}

}  // namespace svcmap::source
