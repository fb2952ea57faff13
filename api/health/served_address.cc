#include "api/health/served_address.h"

#include <spdlog/spdlog.h>

#include "api/log/log_value.h"

namespace svcmap::api {

ServedAddress::ServedAddress(event_base* base, Connections& connections, HttpPoint::Handler handler,
                             ServedAddressOptions options)
    : options_(std::move(options)),
      point_(base, connections, std::move(handler)),
      retry_(base, [this] { Open().IgnoreError(); }) {}

absl::Status ServedAddress::Open() {
  absl::Status status = point_.Open(options_.at, Stack::kBoth);
  if (status.ok()) {
    spdlog::info("serving {} address={}", options_.what, options_.at.ToString());
  } else if (!options_.hard_fail) {
    if (status != failure_) {
      spdlog::warn("cannot serve {}, retrying every {} s address={} error={}", options_.what,
                   std::chrono::duration<double>(options_.retry).count(), options_.at.ToString(),
                   LogValue(status));
    }
    retry_.After(options_.retry);
  }
  failure_ = std::move(status);
  return options_.hard_fail ? failure_ : absl::OkStatus();
}

}  // namespace svcmap::api
