// Sets up the logger of svcmapd and svcmap-kube. Every line is a lower-case event followed by
// `key=value` fields (api/log/log_value.h).
#pragma once

#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace svcmap::api {

// Writes log lines to a pipe or socket whose reader may be blocked, for example because the
// reader's disk hangs.
//
// Write waits at most kPatience for the reader. While the reader is blocked, further lines are
// dropped without waiting. When the reader continues, the sink first writes a line with the number
// of dropped lines.
class BoundedSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  static constexpr int kPatienceMilliseconds = 100;

  // Does not close `fd`.
  explicit BoundedSink(int fd) : fd_(fd) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (dropped_ > 0) {
      if (!Write("log lines dropped because the log reader was blocked count=" +
                 std::to_string(dropped_) + "\n")) {
        ++dropped_;
        return;
      }
      dropped_ = 0;
    }
    if (!Write(std::string_view(line.data(), line.size()))) ++dropped_;
  }
  void flush_() override {}

 private:
  // Number of bytes that a writable pipe accepts without blocking (PIPE_BUF).
  static constexpr size_t kChunk = 4096;

  // If the pipe is full, returns false and may have written only a part of the line.
  bool Write(std::string_view text) {
    while (!text.empty()) {
      pollfd ready = {fd_, POLLOUT, 0};
      if (poll(&ready, 1, stuck_ ? 0 : kPatienceMilliseconds) <= 0) {
        stuck_ = true;
        return false;
      }
      stuck_ = false;
      const ssize_t written = write(fd_, text.data(), std::min(text.size(), kChunk));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      text.remove_prefix(static_cast<size_t>(written));
    }
    return true;
  }

  const int fd_;
  bool stuck_ = false;
  uint64_t dropped_ = 0;
};

// Logs to standard error: info at `verbosity` 0, debug at 1, trace from 2.
void SetUpLog(int verbosity);

}  // namespace svcmap::api
