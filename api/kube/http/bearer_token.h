// A token that Kubernetes replaces in its file while we run.
#pragma once

#include <chrono>
#include <string>

#include "absl/status/status.h"

namespace svcmap::kube {

// Fit for a header: an error otherwise, without what stands there.
absl::Status CheckToken(const std::string& text);

// Not thread-safe.
class BearerToken {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Both empty: there is no token. `file` counts if `text` is empty.
  BearerToken(std::string text, std::string file)
      : text_(std::move(text)), file_(std::move(file)) {}

  // Reads the file if what is known of it is a minute old. What was read before stays if the file
  // cannot be read any more: the error is for when there is nothing. It names the file.
  absl::Status Refresh(Time now);

  // Reads the file in any case and says whether there is another token in it now.
  bool Renew(Time now);

  const std::string& text() const { return text_; }

 private:
  absl::Status Read(Time now);

  std::string text_;
  std::string file_;
  Time read_ = Time::min();
};

}  // namespace svcmap::kube
