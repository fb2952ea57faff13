// A bearer token from a file that Kubernetes may replace.
#pragma once

#include <chrono>
#include <string>

#include "absl/status/status.h"

namespace svcmap::kube {

// Returns an error if the token cannot be sent in a header. The error does not contain the token.
absl::Status CheckToken(const std::string& text);

// Not thread-safe.
class BearerToken {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // If `text` and `file` are empty, there is no token. A token from `file` replaces `text`.
  BearerToken(std::string text, std::string file)
      : text_(std::move(text)), file_(std::move(file)) {}

  // Reads the file if it was last read a minute ago or earlier. If the file cannot be read, the
  // previous token stays in effect. Returns an error only if there is no previous token. The error
  // names the file.
  absl::Status Refresh(Time now);

  // Reads the file, and returns whether it contains another token.
  bool Renew(Time now);

  const std::string& text() const { return text_; }

 private:
  absl::Status Read(Time now);

  std::string text_;
  std::string file_;
  Time read_ = Time::min();
};

}  // namespace svcmap::kube
