#include "api/log/set_up_log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <memory>

namespace svcmap::api {

void SetUpLog(int verbosity) {
  // Limits the time of each log call, because a slow reader of the log must not delay the
  // programming of Services.
  spdlog::set_default_logger(isatty(STDERR_FILENO) == 1
                                 ? spdlog::stderr_color_mt("svcmapd")
                                 : std::make_shared<spdlog::logger>(
                                       "svcmapd", std::make_shared<BoundedSink>(STDERR_FILENO)));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  spdlog::set_level(verbosity == 0   ? spdlog::level::info
                    : verbosity == 1 ? spdlog::level::debug
                                     : spdlog::level::trace);
}

}  // namespace svcmap::api
