// Removes the startup taint from the Node after svcmapd has programmed the Services.
#pragma once

#include <string>
#include <string_view>

#include "api/kube/write/object_writer.h"

namespace svcmap::kube {

// Removes all taints with the key, regardless of their effect, and then does nothing. Never adds a
// taint.
class StartupTaint final : public ObjectWriter {
 public:
  StartupTaint(std::string node_name, std::string key,
               Backoff::Random random = Backoff::SeededRandom());

  void ServicesProgrammed(Clock::time_point now);

 private:
  void OnObject(std::string_view body, Clock::time_point now) override;
  void OnWritten(Clock::time_point now) override;
  void OnRejected(int http_status, const std::string& why, Clock::time_point now) override;

  const std::string path_;
  const std::string key_;
};

}  // namespace svcmap::kube
