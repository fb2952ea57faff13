#include "api/kube/write/object_writer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "api/kube/wire/decode.h"
#include "api/log/log_value.h"

namespace svcmap::kube {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstRetry{1000};
constexpr milliseconds kLastRetry{60000};

}  // namespace

ObjectWriter::ObjectWriter(std::string subject, Backoff::Random random)
    : subject_(std::move(subject)), backoff_(kFirstRetry, kLastRetry, {}, std::move(random)) {}

HttpRequest ObjectWriter::Next() const {
  return write_ ? *write_ : HttpRequest{.path = path_, .accept = kProtobufType};
}

void ObjectWriter::Ended(const absl::StatusOr<HttpResponse>& response, std::string_view body,
                         Clock::time_point now) {
  if (!response.ok()) return Retry(std::string(response.status().message()), now);
  const int status = response->status;
  if (status >= 200 && status < 300) return write_ ? OnWritten(now) : OnObject(body, now);
  const ApiStatus error = DecodeStatus(body);
  const std::string why = ErrorText(status, error);
  // The request is not the cause of these errors.
  if (status < 400 || status == 401 || status == 429 || status >= 500) {
    return Retry(why, now,
                 std::max(response->retry_after, std::chrono::seconds(error.retry_after_seconds)));
  }
  OnRejected(status, why, now);
}

void ObjectWriter::Read(std::string path, Clock::time_point at) {
  path_ = std::move(path);
  write_.reset();
  not_before_ = at;
}

void ObjectWriter::Write(HttpRequest request) { write_ = std::move(request); }

void ObjectWriter::Finish() {
  backoff_.Success();
  last_error_.clear();
  not_before_ = kNever;
}

void ObjectWriter::Retry(const std::string& why, Clock::time_point now,
                         std::chrono::seconds retry_after) {
  write_.reset();
  const milliseconds wait = std::max<milliseconds>(backoff_.Failure(now),
                                                   std::min<milliseconds>(retry_after, kLastRetry));
  not_before_ = now + wait;
  if (std::exchange(last_error_, why) == why) return;
  spdlog::warn("{}, retrying in {}ms error={}", subject_, wait.count(), api::LogValue(why));
}

}  // namespace svcmap::kube
