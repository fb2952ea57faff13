// Tests the requests to the API server after each kind of response. The tests use a fake clock and
// no HTTP connection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "api/kube/watch/reflector.h"
#include "api/source/mirror.h"
#include "svcmap/v1/control.pb.h"
#include "tests/support/log_capture.h"

namespace svcmap::kube::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class ReflectorTest : public ::testing::Test {
 protected:
  static Item Named(const std::string& name, const std::string& version) {
    v1::Change change;
    change.mutable_service()->mutable_metadata()->set_name(name);
    change.mutable_service()->mutable_metadata()->set_namespace_("shop");
    return {
        .key = "shop/" + name, .resource_version = version, .change = change.SerializeAsString()};
  }

  static WatchEvent Change(WatchEvent::Type type, const std::string& name,
                           const std::string& version) {
    WatchEvent event = {.type = type, .item = Named(name, version), .status = {}};
    if (type == WatchEvent::Type::kDeleted) event.item.change.clear();
    return event;
  }
  static WatchEvent Bookmark(const std::string& version) {
    return {.type = WatchEvent::Type::kBookmark, .item = {"", version, {}}, .status = {}};
  }
  static WatchEvent Error(ApiStatus status) {
    return {.type = WatchEvent::Type::kError, .item = {}, .status = std::move(status)};
  }

  static inline const ApiStatus kExpired = {
      .code = 410, .reason = "Expired", .message = "too old: 5 (9)"};
  static inline const ApiStatus kLagging = {
      .code = 504,
      .reason = "Timeout",
      .message = "Timeout: Too large resource version: 9, current: 5",
      .retry_after_seconds = 1};

  using Type = WatchEvent::Type;

  void Use(Resource resource, ListWatchOptions options = {}) {
    options.selection.node_name = "n1";
    base_ = CollectionPath(resource, options.selection);
    options.selection.beta_service_cidrs = true;
    beta_ = resource == Resource::kServiceCidrs ? CollectionPath(resource, options.selection) : "";
    options.selection.beta_service_cidrs = false;
    reflector_.emplace(resource, options, mirror_, [this] { return random_; });
  }
  ReflectorTest() { Use(Resource::kServices); }

  // Advances the clock to the next request. Returns "list" or "watch", followed by the query string
  // of the request.
  std::string Next() {
    waited_ = std::max(reflector_->not_before() - now_, Reflector::Clock::duration::zero());
    now_ += waited_;
    request_ = reflector_->Next(now_);
    const std::string kind = request_.watch ? "watch " : "list ";
    const std::string& path = request_.request.path;
    if (!beta_.empty() && path.starts_with(beta_)) {
      return kind + "v1beta1 " + path.substr(beta_.size());
    }
    EXPECT_THAT(path, StartsWith(base_));
    return kind + path.substr(base_.size());
  }
  milliseconds waited() const { return std::chrono::duration_cast<milliseconds>(waited_); }

  void Page(std::vector<Item> items, const std::string& version, const std::string& more = "") {
    reflector_->Page(
        {.resource_version = version, .continue_token = more, .items = std::move(items)}, now_);
  }
  bool Event(const WatchEvent& event) { return reflector_->Event(event, now_); }
  void Reject(const ApiStatus& status, seconds retry_after = seconds(0)) {
    reflector_->Rejected(status.code, retry_after, status, now_);
  }
  void Break(const std::string& why = "connection refused") {
    reflector_->Failed(absl::UnavailableError(why), now_);
  }
  // Answers the list with Service "web" at version 5, so that the watch starts.
  void StartWatching() {
    Next();
    Page({Named("web", "3")}, "5");
    ASSERT_THAT(Next(), StartsWith("watch "));
    Lines();
  }
  // Returns the new log lines as "level: message".
  std::vector<std::string> Lines() {
    std::vector<std::string> lines = log_.Lines();
    lines.erase(lines.begin(),
                lines.begin() + static_cast<ptrdiff_t>(std::exchange(seen_lines_, lines.size())));
    return lines;
  }
  // Returns the names of the Services in the mirror.
  std::vector<std::string> Stored() {
    std::vector<std::string> names;
    mirror_.StartSnapshot();
    for (const std::string& bytes : mirror_.TakeChanges(1 << 20)) {
      v1::Change change;
      EXPECT_TRUE(change.ParseFromString(bytes));
      names.push_back(change.service().metadata().name());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  testing::LogCapture log_;
  size_t seen_lines_ = 0;  // Lines that Lines() has returned.
  Mirror mirror_;
  double random_ = 0;
  std::string base_;
  std::string beta_;  // For ServiceCIDRs.
  std::optional<Reflector> reflector_;
  Reflector::Clock::time_point now_{std::chrono::hours(1)};
  Reflector::Clock::duration waited_{};
  Reflector::Request request_;
};

// ---- Lists ----

TEST_F(ReflectorTest, TheFirstListIsOfTheNewestStateAndTheWatchGoesOnFromIt) {
  EXPECT_EQ(Next(), "list &limit=500");
  EXPECT_EQ(request_.request.accept, "application/vnd.kubernetes.protobuf");
  now_ += milliseconds(20);
  Page({Named("a", "3"), Named("b", "4")}, "5");
  EXPECT_THAT(Stored(), ElementsAre("a", "b"));
  EXPECT_THAT(Lines(),
              ElementsAre("info: listed resource=services count=2 duration=20ms version=5"));
  EXPECT_TRUE(reflector_->facts().listed);

  EXPECT_EQ(Next(), "watch &watch=1&allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds=300");
  EXPECT_EQ(waited().count(), 0);
  EXPECT_EQ(request_.request.silence_timeout, seconds(330));
  random_ = 0.5;
  now_ += minutes(5);
  reflector_->WatchEnded(now_);
  EXPECT_THAT(Next(), EndsWith("timeoutSeconds=450"));
  EXPECT_EQ(request_.request.silence_timeout, seconds(480));
}

TEST_F(ReflectorTest, NothingOfAListReachesTheMirrorBeforeItsLastPage) {
  Next();
  Page({Named("a", "3")}, "5", "t/1=");
  EXPECT_EQ(Next(), "list &limit=500&continue=t%2F1%3D");
  Break();  // A continue token is valid for minutes, so the client requests the same page again.
  EXPECT_EQ(Next(), "list &limit=500&continue=t%2F1%3D");
  Page({Named("b", "4")}, "5", "t2");
  EXPECT_EQ(waited().count(), 400);
  EXPECT_FALSE(reflector_->facts().listed);
  EXPECT_THAT(Stored(), IsEmpty());
  EXPECT_EQ(Next(), "list &limit=500&continue=t2");
  Page({Named("c", "2")}, "5");
  EXPECT_THAT(Stored(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(Next(), HasSubstr("resourceVersion=5&"));
  EXPECT_EQ(reflector_->facts().lists, 1u);
}

TEST_F(ReflectorTest, PagesThatExpireAreRequestedAgainWithoutPages) {
  Next();
  Page({Named("a", "3")}, "5", "t1");
  Next();
  Reject(kExpired);
  EXPECT_EQ(Next(), "list ");  // The next list requests the newest state without pagination.
  EXPECT_EQ(reflector_->facts().expired, 1u);
  Page({Named("b", "8")}, "9");
  EXPECT_THAT(Stored(), ElementsAre("b"));
}

TEST_F(ReflectorTest, APlaceInTheListThatTheServerCannotDoWithStartsItAgain) {
  Next();
  Page({Named("a", "3")}, "5", "t1");
  Next();
  Reject({.code = 400, .reason = "BadRequest", .message = "continue key is not valid"});
  EXPECT_EQ(Next(), "list &limit=500");
}

// ---- Invalid lists ----

TEST_F(ReflectorTest, ARepeatedContinueTokenEndsTheListAndBacksOff) {
  for (int i = 0; i < 20; ++i) {
    Next();
    Page({Named("a", "3")}, "5", "t1");
    Next();
    Page({Named("b", "3")}, "5", "t2");
    Next();
    Page({Named("c", "3")}, "5", "t1");
    EXPECT_EQ(Next(), "list ");  // After a delay, the client requests the list without pagination.
    EXPECT_GE(waited(), std::min(milliseconds(15000), milliseconds(400) * (1 << i))) << i;
    reflector_->TooLarge(now_);
  }
  EXPECT_THAT(Stored(), IsEmpty());
  EXPECT_THAT(Lines(), Contains(HasSubstr("sent the same continue token twice")));
  EXPECT_THAT(reflector_->facts().last_error, HasSubstr("list of services failed: "));
}

TEST_F(ReflectorTest, PagesOfFewObjectsAreNotAskedForAsFastAsPossible) {
  Next();
  for (int i = 0; i < 50; ++i) {
    Page({Named("a", "3")}, "5", "t" + std::to_string(i));
    Next();
    EXPECT_GE(waited(), milliseconds(100));
  }
  std::vector<Item> full;
  for (int i = 0; i < 500; ++i) full.push_back(Named("s" + std::to_string(i), "3"));
  Page(full, "5", "more");
  Next();
  EXPECT_EQ(waited().count(), 0);
  Page({}, "5");
  EXPECT_EQ(reflector_->facts().lists, 1u);
}

TEST_F(ReflectorTest, PagesThatAreTooLargeAreAskedForInSmallerOnes) {
  EXPECT_EQ(Next(), "list &limit=500");
  EXPECT_EQ(request_.max_bytes, uint64_t{64} << 20);
  for (const char* smaller : {"list &limit=250", "list &limit=125", "list &limit=62"}) {
    reflector_->TooLarge(now_);
    EXPECT_EQ(Next(), smaller);
    EXPECT_GT(waited().count(), 0);
  }
  for (int i = 0; i < 20; ++i) {
    reflector_->TooLarge(now_);
    Next();
  }
  EXPECT_THAT(request_.request.path, EndsWith("&limit=1"));
  Page({Named("a", "3")}, "5");
  EXPECT_THAT(Stored(), ElementsAre("a"));
}

TEST_F(ReflectorTest, AListInPagesHasABoundForAllOfThem) {
  Use(Resource::kServices, {.bounds = {.page = 1000, .list = 10000}});
  uint64_t items = 0;
  for (int page = 0; page < 1000 && Lines().empty(); ++page) {
    Next();
    EXPECT_LE(request_.max_items, 10000 / ListBounds::kItemCost);
    items = request_.max_items;
    reflector_->Page({.resource_version = "5",
                      .continue_token = "t" + std::to_string(page),
                      .items = {Named("s" + std::to_string(page), "3")}},
                     now_, 500);
  }
  EXPECT_LE(items, 2u);
  EXPECT_THAT(reflector_->facts().last_error, HasSubstr("takes more than 10000 bytes"));
  EXPECT_EQ(Next(), "list &limit=500");  // The client starts the list again with the first page.
  EXPECT_GE(waited(), milliseconds(400));
  EXPECT_GT(request_.max_items, 10u);
}

TEST_F(ReflectorTest, AListInOnePieceIsBoundByWhatIsStored) {
  StartWatching();
  Reject(kExpired);
  EXPECT_THAT(Next(), StartsWith("list &resourceVersion="));
  const Mirror::Counts stored = mirror_.counts();
  ASSERT_GT(stored.bytes, 0u);
  EXPECT_EQ(request_.max_bytes, (uint64_t{64} << 20) + 8 * (stored.bytes + 512 * stored.objects));
  reflector_->TooLarge(now_);
  EXPECT_EQ(Next(), "list &limit=500");
  EXPECT_EQ(request_.max_bytes, uint64_t{64} << 20);
  EXPECT_THAT(Stored(), ElementsAre("web"));  // An incomplete list does not remove any object.
}

// ---- Events ----

TEST_F(ReflectorTest, EventsMoveTheMirrorAndTheVersion) {
  StartWatching();
  EXPECT_TRUE(Event(Change(Type::kAdded, "new", "6")));
  EXPECT_TRUE(Event(Change(Type::kModified, "web", "7")));
  EXPECT_THAT(Stored(), ElementsAre("new", "web"));
  EXPECT_TRUE(Event(Change(Type::kDeleted, "web", "8")));
  EXPECT_THAT(Stored(), ElementsAre("new"));
  Break();
  EXPECT_THAT(Next(), HasSubstr("resourceVersion=8&"));
  EXPECT_TRUE(Event(Bookmark("20")));
  Break();
  EXPECT_THAT(Next(), HasSubstr("resourceVersion=20&"));
  EXPECT_EQ(reflector_->facts().events, 4u);
}

// ---- The end of a watch ----

TEST_F(ReflectorTest, WithoutTheFieldSelectorWhereTheServerDoesNotKnowIt_S1) {
  Next();
  Reject({.code = 400, .reason = "BadRequest", .message = "field label not supported"});
  Selection all;
  all.node_name = "n1";
  all.headless_services = true;
  base_ = CollectionPath(Resource::kServices, all);
  EXPECT_THAT(base_, Not(HasSubstr("fieldSelector")));
  EXPECT_EQ(Next(), "list &limit=500");
  EXPECT_EQ(waited(), milliseconds(0));
  Page({Named("web", "3")}, "5");
  EXPECT_THAT(Next(), StartsWith("watch "));
  EXPECT_THAT(Lines(), Contains(HasSubstr("Kubernetes before 1.31")));
  // The client repeats the request without the field selector only once. A second rejection counts
  // as a failure.
  Reject({.code = 400, .reason = "BadRequest", .message = "no"});
  Next();
  EXPECT_GT(waited(), milliseconds(0));
}

TEST_F(ReflectorTest, WhereBookmarksComeSilenceIsNotWaitedOutToTheEndOfTheWatch) {
  StartWatching();
  EXPECT_EQ(request_.request.silence_timeout, seconds(330));
  Event(Bookmark("7"));
  Break();
  Next();
  EXPECT_EQ(request_.request.silence_timeout, minutes(3));
  // A different API server, which may not send bookmarks, may answer the next request.
  reflector_->Failed(absl::DeadlineExceededError("silent for 180 s"), now_);
  Next();
  EXPECT_EQ(request_.request.silence_timeout, seconds(330));
}

TEST_F(ReflectorTest, AWatchThatEndsAtOnceWithoutAnObjectIsAFailure) {
  StartWatching();
  Event(Bookmark("7"));
  now_ += milliseconds(5);
  reflector_->WatchEnded(now_);
  EXPECT_THAT(Lines(), ElementsAre("warning: watch failed, retrying in 0.4s resource=services "
                                   "error=\"the watch ended after 5ms without events\""));
  EXPECT_THAT(Next(), HasSubstr("resourceVersion=7&"));
  EXPECT_EQ(waited().count(), 400);
  Event(Change(Type::kModified, "web", "8"));
  reflector_->WatchEnded(now_);
  Next();
  EXPECT_EQ(waited().count(), 0);
}

TEST_F(ReflectorTest, AConnectionLostResumesTheWatch) {
  StartWatching();
  Event(Change(Type::kModified, "web", "6"));
  Break("https://10.96.0.1:443: connection reset");
  EXPECT_THAT(Lines(), ElementsAre("warning: watch failed, retrying in 0.4s resource=services "
                                   "error=\"https://10.96.0.1:443: connection reset\""));
  EXPECT_THAT(Next(), HasSubstr("&resourceVersion=6&"));
  Break("https://10.96.0.1:443: connection refused");
  EXPECT_THAT(Lines(),
              ElementsAre(::testing::AllOf(HasSubstr("retrying in 0.8s resource=services error="),
                                           EndsWith("connection refused\""))));
  EXPECT_THAT(Next(), HasSubstr("&resourceVersion=6&"));
  Break("https://10.96.0.1:443: connection refused");
  EXPECT_THAT(Lines(), IsEmpty());  // A failure of this kind was already logged.
  EXPECT_THAT(reflector_->facts().last_error, HasSubstr("connection refused"));
  EXPECT_THAT(Next(), HasSubstr("&resourceVersion=6&"));
  Event(Bookmark("9"));
  EXPECT_THAT(Lines(),
              ElementsAre("info: watch recovered resource=services failures=3 duration=2.8s"));
  EXPECT_EQ(reflector_->facts().last_error, "");
  EXPECT_THAT(Stored(), ElementsAre("web"));
}

// ---- Status 410 and the minimum version of the next list ----

TEST_F(ReflectorTest, AVersionThatIsTooOldIsListedAgainWithoutLosingAnything) {
  StartWatching();
  Event(Bookmark("7"));
  EXPECT_FALSE(Event(Error(kExpired)));
  EXPECT_THAT(Stored(), ElementsAre("web"));
  EXPECT_EQ(Next(),
            // The next list must not be older than the latest version that the client received.
            "list &resourceVersion=7");
  EXPECT_EQ(waited().count(), 400);
  EXPECT_THAT(Lines(), ElementsAre("info: watch expired, listing again resource=services "
                                   "error=\"API server returned 410 Expired: too old: 5 (9)\""));
  EXPECT_THAT(Stored(), ElementsAre("web"));
  Page({Named("other", "8")}, "9");
  EXPECT_THAT(Stored(), ElementsAre("other"));
  EXPECT_EQ(reflector_->facts().expired, 1u);
  EXPECT_EQ(reflector_->facts().failures, 0u);

  // The watch request fails twice with status 410. After the second failure, the client retries
  // with a delay.
  EXPECT_THAT(Next(), HasSubstr("watch "));
  Reject(kExpired);
  EXPECT_EQ(Next(), "list &resourceVersion=9");
  EXPECT_EQ(waited().count(), 800);
}

TEST_F(ReflectorTest, AListThatExpiresAsksForTheNewestState) {
  StartWatching();
  Event(Error(kExpired));
  EXPECT_EQ(Next(), "list &resourceVersion=5");
  Reject(kExpired);
  EXPECT_EQ(Next(), "list &limit=500");
  // The rejected request was already for the newest state, so status 410 counts as a failure.
  Reject(kExpired);
  EXPECT_EQ(Next(), "list &limit=500");
  EXPECT_EQ(reflector_->facts().failures, 1u);
  EXPECT_THAT(Stored(), ElementsAre("web"));
}

TEST_F(ReflectorTest, AServerThatLagsBehindIsAskedForTheNewestState) {
  StartWatching();
  EXPECT_FALSE(Event(Error(kLagging)));
  EXPECT_EQ(Next(), "list &resourceVersion=5");
  EXPECT_EQ(waited().count(), 1000);
  Reject(kLagging);
  EXPECT_EQ(Next(), "list &limit=500");
  Page({Named("web", "3")}, "9");
  EXPECT_THAT(Next(), HasSubstr("resourceVersion=9&"));
}

// ---- Other responses ----

TEST_F(ReflectorTest, WhatPassesByItselfIsAskedAgainTheSame) {
  StartWatching();
  for (const int code : {401, 403, 429, 502, 503, 504}) {
    Reject({.code = code, .message = "no"});
    EXPECT_THAT(Next(), HasSubstr("&resourceVersion=5&")) << code;
  }
  EXPECT_FALSE(Event(Error({.code = 503, .message = "no"})));
  EXPECT_THAT(Next(), HasSubstr("&resourceVersion=5&"));
}

TEST_F(ReflectorTest, WhatDoesNotIsListedAgain) {
  for (const int code : {400, 404, 500}) {
    Use(Resource::kServices);
    StartWatching();
    Reject({.code = code, .message = "no"});
    EXPECT_EQ(Next(), "list &resourceVersion=5") << code;
    EXPECT_EQ(waited().count(), 400) << code;
  }
}

TEST_F(ReflectorTest, RetryAfterIsKept) {
  StartWatching();
  Reject({.code = 429, .reason = "TooManyRequests", .message = "later"}, seconds(7));
  Next();
  EXPECT_EQ(waited().count(), 7000);
  random_ = 0.5;
  Reject({.code = 503, .message = "later", .retry_after_seconds = 5});
  Next();
  // The delay is random, so that clients retry at different times.
  EXPECT_EQ(waited().count(), 5400);
  Reject({.code = 503, .message = "later"}, std::chrono::hours(5));
  Next();
  EXPECT_EQ(waited(), minutes(2) + milliseconds(400));
}

TEST_F(ReflectorTest, PermissionsThatAreMissingAreNamed) {
  const ApiStatus forbidden = {.code = 403, .reason = "Forbidden", .message = "as the server says"};
  Use(Resource::kEndpointSlices);
  Next();
  Reject(forbidden);
  EXPECT_THAT(
      Lines(),
      ElementsAre(
          "warning: list failed, retrying in 0.4s resource=endpointslices error=\"not authorized "
          "to list endpointslices.discovery.k8s.io: as the server says\""));
  Use(Resource::kNode);
  StartWatching();
  Reject(forbidden);
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr("not authorized to watch nodes: as the")));
  Next();
  Reject({.code = 401, .reason = "Unauthorized", .message = "Unauthorized"});
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr("returned 401, check the credentials: Unauth")));
}

TEST_F(ReflectorTest, TheSameFailureIsReportedAgainEveryFiveMinutes) {
  Next();
  size_t reported = 0;
  const auto start = now_;
  while (now_ - start < minutes(16)) {
    Break();
    reported += Lines().size();
    Next();
  }
  EXPECT_EQ(reported, 4u);
}

// ---- Backoff ----

TEST_F(ReflectorTest, TheWaitStartsAgainAfterAGoodMinute) {
  StartWatching();
  for (const int wait : {400, 800}) {
    Break();
    Next();
    EXPECT_EQ(waited().count(), wait);
    Event(Bookmark("6"));
    now_ += seconds(59);
    Event(Bookmark("7"));
  }
  now_ += seconds(1);
  Break();
  Next();
  EXPECT_EQ(waited().count(), 400);
}

// ---- Content types ----

TEST_F(ReflectorTest, S291_OnlyProtobufIsRequestedAndAServerWithoutItIsAFailure) {
  Next();
  EXPECT_EQ(request_.request.accept, "application/vnd.kubernetes.protobuf");
  Reject({.code = 406, .reason = "NotAcceptable", .message = "only JSON"});
  EXPECT_THAT(
      Lines(),
      ElementsAre("warning: list failed, retrying in 0.4s resource=services error=\"API server "
                  "returned 406 NotAcceptable: only JSON\""));
  EXPECT_EQ(Next(), "list &limit=500");
  EXPECT_EQ(waited().count(), 400);
}

TEST_F(ReflectorTest, AfterAnEventThatCannotBeReadTheResourceIsListed) {
  StartWatching();
  Event(Bookmark("6"));
  // A resumed watch would receive the unreadable event again.
  reflector_->Unreadable(absl::DataLossError("offset 7"), now_);
  EXPECT_EQ(Next(), "list &resourceVersion=6");
  EXPECT_EQ(waited().count(), 400);
  reflector_->Unreadable(absl::DataLossError("offset 7"), now_);
  EXPECT_EQ(Next(), "list &resourceVersion=6");
}

// ---- ServiceCIDRs ----

TEST_F(ReflectorTest, ServiceCidrsThatTheServerDoesNotKnowAreAnEmptyList_S105) {
  const ApiStatus unknown = {.code = 404, .reason = "NotFound", .message = "page not found"};
  Use(Resource::kServiceCidrs);
  mirror_.Upsert(Resource::kServiceCidrs, Named("old", "1"));
  for (const int wait : {0, 400}) {  // The client sends the second pair of requests after a delay.
    EXPECT_EQ(Next(), "list &limit=500");
    EXPECT_EQ(waited().count(), wait);
    Reject(unknown);
    EXPECT_EQ(Next(), "list v1beta1 &limit=500");
    EXPECT_EQ(waited().count(), 0);
    Reject(unknown);
    EXPECT_FALSE(reflector_->facts().listed);
    EXPECT_EQ(Stored().size(), 1u);
  }
  Lines();
  for (const milliseconds wait : {milliseconds(800), milliseconds(minutes(5))}) {
    EXPECT_EQ(Next(), "list &limit=500");
    EXPECT_EQ(waited(), wait);
    Reject(unknown);
    EXPECT_EQ(Next(), "list v1beta1 &limit=500");
    Reject(unknown);
    EXPECT_EQ(Lines().size(), wait < minutes(5) ? 1u : 0u);
    EXPECT_TRUE(reflector_->facts().listed);
    EXPECT_EQ(reflector_->facts().last_error, "");
    EXPECT_THAT(Stored(), IsEmpty());
  }
  // The cluster was upgraded to a version with ServiceCIDRs and downgraded again.
  Next();
  Page({Named("kubernetes", "3")}, "5");
  EXPECT_THAT(Next(), StartsWith("watch "));
  Reject(unknown);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Stored().size(), 1u);
    EXPECT_EQ(Next(), "list &resourceVersion=5");
    Reject(unknown);
    EXPECT_EQ(Next(), "list v1beta1 &resourceVersion=5");
    Reject(unknown);
  }
  EXPECT_THAT(Stored(), IsEmpty());
  EXPECT_EQ(Next(), "list &limit=500");
}

// Kubernetes 1.31 and 1.32 with v1beta1, and an upgrade to a version without v1beta1.
TEST_F(ReflectorTest, ServiceCidrsAreReadInV1Beta1WhereV1IsMissing_S105) {
  const ApiStatus unknown = {.code = 404, .reason = "NotFound", .message = "page not found"};
  Use(Resource::kServiceCidrs);
  EXPECT_EQ(Next(), "list &limit=500");
  Reject(unknown);
  EXPECT_EQ(Next(), "list v1beta1 &limit=500");
  EXPECT_EQ(waited().count(), 0);
  Page({Named("kubernetes", "3")}, "5");
  EXPECT_EQ(reflector_->facts().failures, 0u);
  EXPECT_EQ(Stored().size(), 1u);
  EXPECT_THAT(Next(), StartsWith("watch v1beta1 "));
  Reject(unknown);
  EXPECT_EQ(Next(), "list v1beta1 &resourceVersion=5");
  Reject(unknown);
  EXPECT_EQ(Next(), "list &resourceVersion=5");
  Page({Named("kubernetes", "3"), Named("more", "7")}, "8");
  EXPECT_EQ(Stored().size(), 2u);
  EXPECT_THAT(Next(), StartsWith("watch &"));
}

// After five rejected lists, svcmap-kube no longer waits for ServiceCIDRs. ServiceCIDRs from an
// earlier list stay in the mirror.
TEST_F(ReflectorTest, ServiceCidrsThatMayNotBeListedDelayNoOtherResource_S333) {
  const ApiStatus forbidden = {.code = 403, .reason = "Forbidden", .message = "no"};
  for (const Resource resource :
       {Resource::kServices, Resource::kEndpointSlices, Resource::kNode}) {
    mirror_.Replace(resource, {});
  }
  Use(Resource::kServiceCidrs);
  for (int i = 0; i < 5; ++i) {
    Next();
    EXPECT_FALSE(mirror_.complete());
    Reject(forbidden);
  }
  EXPECT_TRUE(mirror_.complete());
  EXPECT_FALSE(reflector_->facts().listed);
  Next();
  EXPECT_EQ(waited().count(), 6400);
  Page({Named("kubernetes", "3")}, "5");
  Next();
  for (int i = 0; i < 6; ++i) {
    Reject(forbidden);
    Next();
  }
  EXPECT_EQ(Stored().size(), 1u);
}

// A starting API server rejects all clients until it has read its RBAC roles.
TEST_F(ReflectorTest, ServiceCidrsThatAreRejectedForAMomentAreNotMistakenForNone_S333) {
  const ApiStatus forbidden = {.code = 403, .reason = "Forbidden", .message = "no"};
  mirror_.Replace(Resource::kServices, {});
  mirror_.Replace(Resource::kEndpointSlices, {});
  mirror_.Replace(Resource::kNode, {});
  Use(Resource::kServiceCidrs);
  for (int i = 0; i < 8; ++i) {
    Next();
    if (i == 4) {
      Break();  // A lost connection resets the number of rejections.
    } else {
      Reject(forbidden);
    }
    EXPECT_FALSE(mirror_.complete());
  }
  Next();
  Page({Named("kubernetes", "3")}, "5");
  EXPECT_EQ(Stored().size(), 1u);
}

}  // namespace
}  // namespace svcmap::kube::test
