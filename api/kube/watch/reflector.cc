#include "api/kube/watch/reflector.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "api/log/log_value.h"

namespace svcmap::kube {
namespace {

// An API server that answers every second request is overloaded, so the delay continues to grow.
constexpr std::chrono::minutes kGoodTime{1};

using std::chrono::milliseconds;

constexpr char kJson[] = "application/json";

// The API server gives up a list after as long (its --request-timeout).
constexpr std::chrono::seconds kListPatience{60};

// A quiet watch says nothing: bookmarks come about every minute, but nobody promises them. So what
// is waited for is the end that the server gives it, and a bit; connections that are dead are found
// by TCP's keepalive, unless somebody in between keeps our half of them. Where bookmarks have come,
// their absence says enough.
constexpr std::chrono::seconds kWatchSlack{30};
constexpr std::chrono::minutes kWithoutBookmark{3};

// A watch that ends sooner, and without an object, is no watch, and would be asked for as fast as
// the network allows.
constexpr std::chrono::seconds kShortWatch{1};

// How many lists in a row have to be refused before that counts as an empty one (S-333): an API
// server that starts says 403 to everybody until it has read the roles, so that takes some ten
// seconds. It says 503, not 404, while it does not know its own paths: a 404 is only to be no
// accident, unless it knew them before.
constexpr int kRefusals = 5;
constexpr int kUnknownFromTheStart = 3;

// A page with fewer objects than a part of what was asked for, though more pages follow: an API
// server seldom sends one, and a broken one must not be asked as fast as the network allows.
constexpr int64_t kShortPage = 10;  // The part: a tenth.
constexpr milliseconds kShortPagePause{100};

constexpr std::chrono::minutes kMissingRest{5};
constexpr std::chrono::minutes kLogAgain{5};  // The same failure.
constexpr std::chrono::minutes kLongestRetryAfter{
    2};  // Whatever it says, we are not gone for hours.

// "endpointslices.discovery.k8s.io": as in RBAC and kubectl.
std::string NameWithGroup(Resource resource) {
  std::string name(ResourceName(resource));
  if (resource == Resource::kEndpointSlices) return name + ".discovery.k8s.io";
  if (resource == Resource::kServiceCidrs) return name + ".networking.k8s.io";
  return name;
}

std::string SecondsText(Reflector::Clock::duration time) {
  return absl::StrFormat("%.1fs", std::chrono::duration<double>(time).count());
}
std::string MillisecondsText(Reflector::Clock::duration time) {
  return absl::StrCat(std::chrono::duration_cast<milliseconds>(time).count(), "ms");
}

// The API server's cache has not seen yet what we have. 504 has other reasons, too.
bool LagsBehind(const ApiStatus& status) {
  return status.message.find("Too large resource version") != std::string::npos;
}

}  // namespace

Reflector::Reflector(Resource resource, ListWatchOptions options, Mirror& mirror,
                     Backoff::Random random)
    : resource_(resource),
      options_(std::move(options)),
      page_size_(options_.page_size),
      selection_(options_.selection),
      path_(CollectionPath(resource, selection_)),
      mirror_(mirror),
      backoff_(options_.first_retry, options_.last_retry, kGoodTime, std::move(random)),
      accept_(options_.accept) {}

Reflector::Request Reflector::Next(Clock::time_point now) {
  asked_ = now;
  Request ask;
  ask.watch = watching_;
  ask.request.accept = accept_;
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
  // Not all watches of all nodes at the same time.
  const std::chrono::seconds min = options_.watch_timeout_min;
  const auto timeout =
      std::chrono::duration_cast<std::chrono::seconds>(min + backoff_.RandomPart(min));
  ask.request.path = absl::StrCat(path_, "&watch=1&allowWatchBookmarks=true&resourceVersion=",
                                  PercentEncoded(version_), "&timeoutSeconds=", timeout.count());
  ask.request.silence_timeout = timeout + kWatchSlack;
  if (bookmarks_come_) {
    ask.request.silence_timeout =
        std::min<milliseconds>(ask.request.silence_timeout, kWithoutBookmark);
  }
  return ask;
}

std::string Reflector::ListPath() const {
  const std::string limit = absl::StrCat("&limit=", page_size_);
  // The token stands for the version, too: both together are refused.
  if (!continue_token_.empty()) {
    return absl::StrCat(path_, limit, "&continue=", PercentEncoded(continue_token_));
  }
  switch (from_) {
    case From::kNotOlder:
      // Without a limit: with one this would mean exactly that version.
      return absl::StrCat(path_, "&resourceVersion=", PercentEncoded(version_));
    case From::kNewest:
      return absl::StrCat(path_, limit);
    case From::kNewestUnpaged:
      break;
  }
  return path_;
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
  failures_in_row_ = 0;
  list_cost_ += bytes + ListBounds::kItemCost * page.items.size();
  if (!page.continue_token.empty()) {
    const uint64_t token = absl::Hash<std::string>()(page.continue_token);
    if (!tokens_.insert(token).second) {
      Fail("the API server sent the same continue token twice", now);
      return ListAgain(From::kNewestUnpaged);
    }
    if (list_cost_ >= options_.bounds.list) return TooLarge(now);
  }
  const bool short_page = static_cast<int64_t>(page.items.size()) < page_size_ / kShortPage;
  // All pages are of the version of the first; were they not, the first would be the safe one.
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
    page_size_ = std::max<int64_t>(page_size_ / 2, 1);
    Fail(absl::StrCat("a page takes more than ", options_.bounds.page,
                      " bytes; listing in pages of ", page_size_, " objects"),
         now);
  }
  ListAgain(From::kNewest);
}

void Reflector::Listed(Clock::time_point now) {
  lines_.push_back({.text = absl::StrFormat("listed resource=%s count=%d duration=%s version=%s",
                                            std::string(ResourceName(resource_)), items_.size(),
                                            MillisecondsText(now - list_requested_),
                                            api::LogValue(list_version_))});
  mirror_.Replace(resource_, std::exchange(items_, {}));
  version_ = std::exchange(list_version_, {});
  tokens_.clear();
  list_cost_ = 0;
  watching_ = true;
  ++facts_.lists;
  facts_.listed = true;
  failures_in_a_row_ = 0;  // The line above says it.
  reported_missing_ = false;
  Succeeded(now);
}

void Reflector::Missing(Clock::time_point now) {
  mirror_.Replace(resource_, {});
  ListAgain(From::kNewest);
  version_.clear();
  ++facts_.lists;
  facts_.listed = true;
  failures_in_a_row_ = 0;  // Said below.
  Contact(now);
  Succeeded(now);
  not_before_ = now + kMissingRest;
  if (std::exchange(reported_missing_, true)) return;
  lines_.push_back(
      {.text = absl::StrCat(
           "resource not available, packets to unused cluster IPs are not dropped, "
           "retrying every 5m resource=",
           NameWithGroup(resource_), " reason=\"the Kubernetes version is older than 1.33\"")});
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
    case WatchEvent::Type::kDeleted:  // Or it left the selection.
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
  retry_after = std::max(retry_after, std::chrono::seconds(status.retry_after_seconds));
  const bool refused_list = !watching_ && (http_status == 403 || http_status == 404);
  failures_in_row_ = refused_list ? failures_in_row_ + 1 : 0;
  const std::string why =
      absl::StrCat("API server returned ", http_status, status.reason.empty() ? "" : " ",
                   status.reason, status.message.empty() ? "" : ": ", status.message);
  switch (http_status) {
    case 400:
      if (WithoutFieldSelector(why, now)) return;
      break;
    case 401:
      return Fail(absl::StrCat("API server returned 401, check the credentials: ", status.message),
                  now, retry_after);
    case 403:
      // Nothing but the DROP of unused addresses depends on them, and kube-proxy's own role has not
      // always had them; the Services do not wait for that (S-333).
      if (resource_ == Resource::kServiceCidrs && !facts_.listed && failures_in_row_ >= kRefusals) {
        mirror_.Replace(resource_, {});
      }
      return Fail(absl::StrCat("not authorized to ", watching_ ? "watch " : "list ",
                               NameWithGroup(resource_), ": ", status.message),
                  now, retry_after);
    case 404:
      // networking.k8s.io/v1beta1, of 1.31 and 1.32, is not asked for: it is off there unless
      // somebody turned it on.
      if (resource_ == Resource::kServiceCidrs &&
          failures_in_row_ >= (version_.empty() ? kUnknownFromTheStart : kRefusals)) {
        return Missing(now);
      }
      break;
    case 406:
      if (accept_ != kJson) return ToJson(why, now);
      break;
    case 410:
      if (watching_) return Expired(why, From::kNotOlder, now);
      if (!continue_token_.empty()) return Expired(why, From::kNewestUnpaged, now);
      if (from_ == From::kNotOlder) return Expired(why, From::kNewest, now);
      break;
    case 429:
    case 502:
    case 503:
      // Says nothing about what was asked: the same again.
      return Fail(why, now, retry_after);
    case 504:
      Fail(why, now, retry_after);
      if (LagsBehind(status)) ListAgain(watching_ ? From::kNotOlder : From::kNewest);
      return;
    default:
      break;
  }
  Fail(why, now, retry_after);
  // Not one of those that pass by themselves: perhaps it is our version or our place in the list
  // that the server cannot do with.
  ListAgain(watching_ ? From::kNotOlder : from_);
}

void Reflector::Expired(const std::string& why, From next, Clock::time_point now) {
  ++facts_.expired;
  lines_.push_back({.text = LogText("expired, listing again", why)});
  ListAgain(next);
  // All nodes' watches may have expired together; and not in a loop.
  not_before_ = now + backoff_.Failure(now);
}

void Reflector::Failed(const absl::Status& error, Clock::time_point now) {
  // Perhaps it is another server by now, which sends none.
  if (absl::IsDeadlineExceeded(error)) bookmarks_come_ = false;
  failures_in_row_ = 0;
  Fail(std::string(error.message()), now);
}

void Reflector::Unreadable(const absl::Status& error, ContentType type, Clock::time_point now) {
  const std::string why =
      absl::StrCat("invalid response from the API server: ", std::string(error.message()));
  if (type == ContentType::kProtobuf && accept_ != kJson) return ToJson(why, now);
  Fail(why, now);
  // The same event would come again.
  if (watching_) ListAgain(From::kNotOlder);
}

// S-1. False: that is not what it minds.
bool Reflector::WithoutFieldSelector(const std::string& why, Clock::time_point now) {
  if (resource_ != Resource::kServices || watching_ || !continue_token_.empty()) return false;
  if (selection_.headless_services) return false;
  selection_.headless_services = true;
  path_ = CollectionPath(resource_, selection_);
  ++facts_.failures;
  lines_.push_back(
      {.text = LogText(
           "failed, also listing headless Services, which Kubernetes before 1.31 requires", why)});
  ListAgain(from_);
  not_before_ = now;
  return true;
}

void Reflector::ToJson(const std::string& why, Clock::time_point now) {
  ++facts_.failures;
  lines_.push_back({.warning = true, .text = LogText("failed, switching to JSON", why)});
  accept_ = kJson;
  not_before_ = now;
}

void Reflector::Fail(const std::string& why, Clock::time_point now,
                     std::chrono::seconds retry_after) {
  ++facts_.failures;
  if (failures_in_a_row_++ == 0) failing_since_ = now;
  // What the server asks for, a bit apart from all others whom it told the same.
  milliseconds wait = backoff_.Failure(now);
  if (retry_after.count() > 0) {
    wait = std::min<milliseconds>(retry_after, kLongestRetryAfter) +
           backoff_.RandomPart(options_.first_retry);
  }
  not_before_ = now + wait;

  facts_.last_error = absl::StrCat(Subject(), " failed: ", why);
  if (facts_.last_error == reported_ && now - reported_at_ < kLogAgain) return;
  reported_ = facts_.last_error;
  reported_at_ = now;
  lines_.push_back(
      {.warning = true, .text = LogText("failed, retrying in " + SecondsText(wait), why)});
}

void Reflector::Succeeded(Clock::time_point now) {
  backoff_.Success(now);
  facts_.last_error.clear();
  reported_.clear();
  if (failures_in_a_row_ == 0) return;
  lines_.push_back(
      {.text = absl::StrFormat("watch recovered resource=%s failures=%d duration=%s",
                               std::string(ResourceName(resource_)), failures_in_a_row_,
                               SecondsText(now - failing_since_))});
  failures_in_a_row_ = 0;
}

std::string Reflector::Subject() const {
  return absl::StrCat(watching_ ? "watch of " : "list of ", std::string(ResourceName(resource_)));
}

// A log line about a problem of the current request.
std::string Reflector::LogText(const std::string& event, const std::string& why) const {
  return absl::StrCat(watching_ ? "watch " : "list ", event,
                      " resource=", std::string(ResourceName(resource_)),
                      " error=", api::LogValue(why));
}

std::vector<Reflector::Line> Reflector::TakeLines() { return std::exchange(lines_, {}); }

}  // namespace svcmap::kube
