#include "api/kube/watch/reflector.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "api/log/log_value.h"

namespace svcmap::kube {
namespace {

// Time without failures after which the retry delay is reset. A shorter success does not reset it,
// because an API server that answers only every second request is overloaded.
constexpr std::chrono::minutes kGoodTime{1};

using std::chrono::milliseconds;

// The API server aborts a list after its --request-timeout, which is 60 s by default.
constexpr std::chrono::seconds kListPatience{60};

// A watch without changes may be silent: bookmarks usually arrive about every minute, but the API
// does not guarantee them. So a silent watch times out kWatchSlack after the server should have
// ended it (timeoutSeconds). TCP keepalive detects dead connections earlier, unless a proxy in
// between keeps the connection open. If the server is known to send bookmarks, a watch times out
// after kWithoutBookmark without data.
constexpr std::chrono::seconds kWatchSlack{30};
constexpr std::chrono::minutes kWithoutBookmark{3};

// A watch that ends earlier than this and without an object counts as a failure. Otherwise, a
// broken server would receive requests as fast as the network allows.
constexpr std::chrono::seconds kShortWatch{1};

// Number of consecutive rejected lists of ServiceCIDRs after which an empty list is assumed
// (S-333). A starting API server returns 403 to all clients until it has loaded the RBAC roles,
// which takes about ten seconds. While its own paths are incomplete, it returns 503, not 404. So a
// few 404 responses are sufficient, unless the server has listed ServiceCIDRs before.
constexpr int kRefusals = 5;
constexpr int kUnknownFromTheStart = 3;

// A page is short if it has less than page_size / kShortPage objects although more pages follow.
// The next page is then requested after a pause. API servers rarely send short pages, and a broken
// server must not receive requests as fast as the network allows.
constexpr int64_t kShortPage = 10;
constexpr milliseconds kShortPagePause{100};

constexpr std::chrono::minutes kMissingRest{5};
constexpr std::chrono::minutes kLogAgain{5};  // Interval for logging the same failure again.
// Limit for Retry-After, so that a wrong value cannot stop the requests for hours.
constexpr std::chrono::minutes kLongestRetryAfter{2};

std::string SecondsText(Reflector::Clock::duration time) {
  return absl::StrFormat("%.1fs", std::chrono::duration<double>(time).count());
}
std::string MillisecondsText(Reflector::Clock::duration time) {
  return absl::StrCat(std::chrono::duration_cast<milliseconds>(time).count(), "ms");
}

// Returns whether the API server's cache is older than the requested version. Status 504 alone is
// not sufficient, because it has other causes as well.
bool LagsBehind(const ApiStatus& status) {
  return status.message.find("Too large resource version") != std::string::npos;
}

}  // namespace

Reflector::Reflector(Resource resource, ListWatchOptions options, Mirror& mirror,
                     Backoff::Random random)
    : resource_(resource),
      options_(std::move(options)),
      mirror_(mirror),
      backoff_(options_.first_retry, options_.last_retry, kGoodTime, std::move(random)) {}

Reflector::Request Reflector::Next(Clock::time_point now) {
  asked_ = now;
  Request ask;
  ask.watch = watching_;
  ask.request.accept = kProtobufType;
  if (!watching_) {
    if (continue_token_.empty()) list_requested_ = now;
    ask.request.path = ListPath();
    ask.request.first_byte_timeout = kListPatience;
    const ListBounds& bounds = options_.bounds;
    ask.max_bytes = bounds.page;
    if (!InPages()) {
      const Mirror::Counts stored = mirror_.counts();
      ask.max_bytes +=
          bounds.times_stored * (stored.bytes + ListBounds::kItemCost * stored.objects);
    }
    const uint64_t most = std::max(bounds.list, ask.max_bytes);
    ask.max_items = (most - std::min(most, list_cost_)) / ListBounds::kItemCost;
    return ask;
  }
  ++facts_.watches;
  brought_object_ = false;
  // The random part prevents the watches of all nodes from ending at the same time.
  const std::chrono::seconds min = options_.watch_timeout_min;
  const auto timeout =
      std::chrono::duration_cast<std::chrono::seconds>(min + backoff_.RandomPart(min));
  ask.request.path =
      absl::StrCat(CollectionPath(resource_, options_.selection),
                   "&watch=1&allowWatchBookmarks=true&resourceVersion=", PercentEncoded(version_),
                   "&timeoutSeconds=", timeout.count());
  ask.request.silence_timeout = timeout + kWatchSlack;
  if (bookmarks_come_) {
    ask.request.silence_timeout =
        std::min<milliseconds>(ask.request.silence_timeout, kWithoutBookmark);
  }
  return ask;
}

std::string Reflector::ListPath() const {
  std::string path = CollectionPath(resource_, options_.selection);
  const std::string limit = absl::StrCat("&limit=", options_.page_size);
  // The continue token includes the version. The API server rejects requests that have both.
  if (!continue_token_.empty()) {
    return absl::StrCat(path, limit, "&continue=", PercentEncoded(continue_token_));
  }
  switch (from_) {
    case From::kNotOlder:
      // Without a limit, because the API server would otherwise require exactly this version.
      return absl::StrCat(path, "&resourceVersion=", PercentEncoded(version_));
    case From::kNewest:
      return absl::StrCat(path, limit);
    case From::kNewestUnpaged:
      break;
  }
  return path;
}

void Reflector::ListAgain(From from) {
  watching_ = false;
  from_ = from;
  items_.clear();
  list_version_.clear();
  continue_token_.clear();
  tokens_.clear();
  list_cost_ = 0;
}

void Reflector::Page(ListPage page, Clock::time_point now, uint64_t bytes) {
  refused_lists_ = 0;
  list_cost_ += bytes + ListBounds::kItemCost * page.items.size();
  if (!page.continue_token.empty()) {
    const uint64_t token = absl::Hash<std::string>()(page.continue_token);
    if (!tokens_.insert(token).second) {
      Fail("the API server sent the same continue token twice", now);
      return ListAgain(From::kNewestUnpaged);
    }
    if (list_cost_ >= options_.bounds.list) return TooLarge(now);
  }
  const bool short_page = static_cast<int64_t>(page.items.size()) < options_.page_size / kShortPage;
  // All pages have the version of the first page. If a broken server sent different versions, a
  // watch from the first version would still miss no event.
  if (continue_token_.empty()) list_version_ = std::move(page.resource_version);
  items_.insert(items_.end(), std::make_move_iterator(page.items.begin()),
                std::make_move_iterator(page.items.end()));
  continue_token_ = std::move(page.continue_token);
  not_before_ = short_page && !continue_token_.empty() ? now + kShortPagePause : now;
  if (continue_token_.empty()) Listed(now);
}

void Reflector::TooLarge(Clock::time_point now) {
  if (!InPages()) {
    Fail("the list is much larger than the stored objects; listing in pages", now);
  } else if (list_cost_ >= options_.bounds.list) {
    Fail(absl::StrCat("the list takes more than ", options_.bounds.list, " bytes"), now);
  } else {
    options_.page_size = std::max<int64_t>(options_.page_size / 2, 1);
    Fail(absl::StrCat("a page takes more than ", options_.bounds.page,
                      " bytes; listing in pages of ", options_.page_size, " objects"),
         now);
  }
  ListAgain(From::kNewest);
}

void Reflector::Listed(Clock::time_point now) {
  spdlog::info("listed resource={} count={} duration={} version={}", ResourceName(resource_),
               items_.size(), MillisecondsText(now - list_requested_),
               api::LogValue(list_version_));
  mirror_.Replace(resource_, std::exchange(items_, {}));
  version_ = std::exchange(list_version_, {});
  tokens_.clear();
  list_cost_ = 0;
  watching_ = true;
  ++facts_.lists;
  facts_.listed = true;
  failures_in_a_row_ = 0;  // The log line above reports the success.
  reported_missing_ = false;
  Succeeded(now);
}

void Reflector::Missing(Clock::time_point now) {
  mirror_.Replace(resource_, {});
  ListAgain(From::kNewest);
  version_.clear();
  ++facts_.lists;
  facts_.listed = true;
  failures_in_a_row_ = 0;  // The log line below reports the success.
  Contact(now);
  Succeeded(now);
  not_before_ = now + kMissingRest;
  if (std::exchange(reported_missing_, true)) return;
  spdlog::info(
      "resource not available, packets to unused cluster IPs are not dropped, retrying every 5m "
      "resource={} reason=\"Kubernetes before 1.33 does not enable this API by default\"",
      NameWithGroup(resource_));
}

bool Reflector::Event(const WatchEvent& event, Clock::time_point now) {
  ++facts_.events;
  switch (event.type) {
    case WatchEvent::Type::kError:
      Rejected(event.status.code, {}, event.status, now);
      return false;
    case WatchEvent::Type::kAdded:
    case WatchEvent::Type::kModified:
      mirror_.Upsert(resource_, event.item);
      brought_object_ = true;
      break;
    case WatchEvent::Type::kDeleted:  // Or the object no longer matches the selectors.
      mirror_.Remove(resource_, event.item.key);
      brought_object_ = true;
      break;
    case WatchEvent::Type::kBookmark:
      bookmarks_come_ = true;
      break;
  }
  if (!event.item.resource_version.empty()) version_ = event.item.resource_version;
  Succeeded(now);
  return true;
}

void Reflector::WatchEnded(Clock::time_point now) {
  if (now - asked_ < kShortWatch && !brought_object_) {
    return Fail(
        absl::StrCat("the watch ended after ", MillisecondsText(now - asked_), " without events"),
        now);
  }
  Contact(now);
  Succeeded(now);
  not_before_ = now;
}

void Reflector::Rejected(int http_status, std::chrono::seconds retry_after, const ApiStatus& status,
                         Clock::time_point now) {
  if (http_status == 404 && WithBetaServiceCidrs(now)) return;
  retry_after = std::max(retry_after, std::chrono::seconds(status.retry_after_seconds));
  const bool refused_list = !watching_ && (http_status == 403 || http_status == 404);
  refused_lists_ = refused_list ? refused_lists_ + 1 : 0;
  const std::string why = ErrorText(http_status, status);
  switch (http_status) {
    case 400:
      if (WithoutFieldSelector(why, now)) return;
      break;
    case 401:
      return Fail(absl::StrCat("API server returned 401, check the credentials: ", status.message),
                  now, retry_after);
    case 403:
      // Only the DROP rule for unused cluster IPs needs ServiceCIDRs. Older kube-proxy roles do not
      // permit listing them, so Services must not wait for ServiceCIDRs (S-333).
      if (resource_ == Resource::kServiceCidrs && !facts_.listed && refused_lists_ >= kRefusals) {
        mirror_.Replace(resource_, {});
      }
      return Fail(absl::StrCat("not authorized to ", watching_ ? "watch " : "list ",
                               NameWithGroup(resource_), ": ", status.message),
                  now, retry_after);
    case 404:
      if (resource_ == Resource::kServiceCidrs &&
          refused_lists_ >= (version_.empty() ? kUnknownFromTheStart : kRefusals)) {
        return Missing(now);
      }
      break;
    case 410:
      if (watching_) return Expired(why, From::kNotOlder, now);
      if (!continue_token_.empty()) return Expired(why, From::kNewestUnpaged, now);
      if (from_ == From::kNotOlder) return Expired(why, From::kNewest, now);
      break;
    case 429:
    case 502:
    case 503:
      // The request is not the cause, so the same request is sent again.
      return Fail(why, now, retry_after);
    case 504:
      Fail(why, now, retry_after);
      if (LagsBehind(status)) ListAgain(watching_ ? From::kNotOlder : From::kNewest);
      return;
    default:
      break;
  }
  Fail(why, now, retry_after);
  // Other errors are probably not transient. The version or the continue token may be invalid on
  // this server, so list again.
  ListAgain(watching_ ? From::kNotOlder : from_);
}

void Reflector::Expired(const std::string& why, From next, Clock::time_point now) {
  ++facts_.expired;
  Log(spdlog::level::info, "expired, listing again", why);
  ListAgain(next);
  // The delay prevents a loop, and it spreads the requests of all nodes if all watches expire
  // together.
  not_before_ = now + backoff_.Failure(now);
}

void Reflector::Failed(const absl::Status& error, Clock::time_point now) {
  // The next connection may lead to another server, which may not send bookmarks.
  if (absl::IsDeadlineExceeded(error)) bookmarks_come_ = false;
  refused_lists_ = 0;
  Fail(std::string(error.message()), now);
}

void Reflector::Unreadable(const absl::Status& error, Clock::time_point now) {
  Fail(absl::StrCat("invalid response from the API server: ", std::string(error.message())), now);
  // A watch from the same version would receive the same event again.
  if (watching_) ListAgain(From::kNotOlder);
}

// Handles status 400 for a list of Services: API servers before Kubernetes 1.31 reject the field
// selector that excludes headless Services, so headless Services are listed as well (S-1). Returns
// false if the field selector cannot be the cause.
bool Reflector::WithoutFieldSelector(const std::string& why, Clock::time_point now) {
  if (resource_ != Resource::kServices || watching_ || !continue_token_.empty()) return false;
  if (options_.selection.headless_services) return false;
  options_.selection.headless_services = true;
  ++facts_.failures;
  Log(spdlog::level::info,
      "failed, also listing headless Services, which Kubernetes before 1.31 requires", why);
  ListAgain(from_);
  not_before_ = now;
  return true;
}

// Handles status 404 for a list of ServiceCIDRs. Kubernetes 1.31 and 1.32 have them in v1beta1, if
// an administrator has enabled this version. So each list in v1 that fails is followed by a list in
// v1beta1. Returns false if that was the failed list. The next list then uses v1 again.
bool Reflector::WithBetaServiceCidrs(Clock::time_point now) {
  if (resource_ != Resource::kServiceCidrs || watching_) return false;
  options_.selection.beta_service_cidrs = !options_.selection.beta_service_cidrs;
  ListAgain(from_);
  not_before_ = now;
  return options_.selection.beta_service_cidrs;
}

void Reflector::Fail(const std::string& why, Clock::time_point now,
                     std::chrono::seconds retry_after) {
  ++facts_.failures;
  if (failures_in_a_row_++ == 0) failing_since_ = now;
  // Retry-After of the server applies, plus a random part, because other clients have received the
  // same value.
  milliseconds wait = backoff_.Failure(now);
  if (retry_after.count() > 0) {
    wait = std::min<milliseconds>(retry_after, kLongestRetryAfter) +
           backoff_.RandomPart(options_.first_retry);
  }
  not_before_ = now + wait;

  facts_.last_error = absl::StrCat(watching_ ? "watch of " : "list of ",
                                   std::string(ResourceName(resource_)), " failed: ", why);
  if (facts_.last_error == reported_ && now - reported_at_ < kLogAgain) return;
  reported_ = facts_.last_error;
  reported_at_ = now;
  Log(spdlog::level::warn, "failed, retrying in " + SecondsText(wait), why);
}

void Reflector::Succeeded(Clock::time_point now) {
  backoff_.Success(now);
  facts_.last_error.clear();
  reported_.clear();
  if (failures_in_a_row_ == 0) return;
  spdlog::info("watch recovered resource={} failures={} duration={}", ResourceName(resource_),
               failures_in_a_row_, SecondsText(now - failing_since_));
  failures_in_a_row_ = 0;
}

void Reflector::Log(spdlog::level::level_enum level, const std::string& event,
                    const std::string& why) const {
  spdlog::log(level, "{} {} resource={} error={}", watching_ ? "watch" : "list", event,
              ResourceName(resource_), api::LogValue(why));
}

}  // namespace svcmap::kube
