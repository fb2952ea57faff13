#pragma once

#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <vector>

namespace svcmap::testing {

// Captures the lines of the default logger, from level info, while the object exists. All functions
// may be called while other threads log. A thread that is about to log while the object is
// destroyed does no harm: the logger stays in memory until the program ends.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  // Returns the lines so far as "level: message".
  std::vector<std::string> Lines() const;
  // Returns the same lines, each with a newline character.
  std::string Text() const;
  // Returns the number of lines that contain `text`.
  size_t Count(const std::string& text) const;

 private:
  class Sink;

  std::shared_ptr<Sink> sink_;
  std::shared_ptr<spdlog::logger> previous_;
};

}  // namespace svcmap::testing
