#include "tests/support/log_capture.h"

#include <spdlog/sinks/base_sink.h>

#include <algorithm>
#include <mutex>

#include "absl/strings/str_cat.h"

namespace svcmap::testing {
namespace {

// spdlog's functions use the default logger without a reference count.
void KeepForEver(std::shared_ptr<spdlog::logger> logger) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::shared_ptr<spdlog::logger>>;
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(logger));
}

}  // namespace

class LogCapture::Sink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::vector<std::string> Lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const auto level = spdlog::level::to_string_view(message.level);
    lines_.push_back(
        absl::StrCat(absl::string_view(level.data(), level.size()), ": ",
                     absl::string_view(message.payload.data(), message.payload.size())));
  }
  void flush_() override {}

 private:
  std::vector<std::string> lines_;
};

LogCapture::LogCapture() : sink_(std::make_shared<Sink>()), previous_(spdlog::default_logger()) {
  auto logger = std::make_shared<spdlog::logger>("test", sink_);
  logger->set_level(spdlog::level::info);
  KeepForEver(logger);
  spdlog::set_default_logger(std::move(logger));
}

LogCapture::~LogCapture() { spdlog::set_default_logger(previous_); }

std::vector<std::string> LogCapture::Lines() const { return sink_->Lines(); }

std::string LogCapture::Text() const {
  std::string text;
  for (const std::string& line : Lines()) absl::StrAppend(&text, line, "\n");
  return text;
}

size_t LogCapture::Count(const std::string& text) const {
  const std::vector<std::string> lines = Lines();
  return static_cast<size_t>(
      std::count_if(lines.begin(), lines.end(),
                    [&](const std::string& line) { return line.find(text) != std::string::npos; }));
}

}  // namespace svcmap::testing
