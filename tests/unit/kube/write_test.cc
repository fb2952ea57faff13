// Tests the requests that change objects in the API server, after each kind of response. The tests
// use a fake clock and no HTTP connection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "api/kube/write/object_writer.h"
#include "tests/support/kube_encoding.h"
#include "tests/support/log_capture.h"
#include "tests/unit/kube/wire_bytes.h"

namespace svcmap::kube::test {
namespace {

using svcmap::testing::Enveloped;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using namespace std::chrono_literals;
using Clock = ObjectWriter::Clock;

// Runs a writer with a fake clock.
class WriterHarness {
 public:
  explicit WriterHarness(ObjectWriter& writer) : writer_(writer) {}

  bool idle() const { return writer_.not_before() == ObjectWriter::kNever; }

  // Advances the clock to the next request, and returns it as "METHOD PATH".
  std::string Next() {
    if (idle()) return "none";
    waited = std::max<Clock::duration>(writer_.not_before() - now, 0s);
    now += waited;
    request = writer_.Next();
    return request.method + " " + request.path;
  }
  void Answer(int status, const std::string& body = "") {
    writer_.Ended(HttpResponse{.status = status}, body, now);
  }
  void Reject(int status, const std::string& message) {
    Answer(status, Enveloped("v1", "Status",
                             pb::Bytes(3, message) + pb::Bytes(4, "Why") + pb::Int(6, status)));
  }
  // Returns the new log lines as "level: message".
  std::vector<std::string> Lines() {
    std::vector<std::string> lines = log_.Lines();
    lines.erase(lines.begin(),
                lines.begin() + static_cast<ptrdiff_t>(std::exchange(seen_, lines.size())));
    return lines;
  }

  Clock::time_point now = Clock::time_point() + 1h;
  Clock::duration waited{};
  HttpRequest request;

 private:
  ObjectWriter& writer_;
  testing::LogCapture log_;
  size_t seen_ = 0;
};

// ---- The startup taint ----

constexpr char kGetNode[] = "GET /api/v1/nodes/n1";
constexpr char kPatchNode[] = "PATCH /api/v1/nodes/n1";

std::string NodeWith(const std::vector<std::string>& taints) {
  std::string spec;
  for (const std::string& key : taints) {
    spec += pb::Bytes(5, pb::Bytes(1, key) + pb::Bytes(2, "") + pb::Bytes(3, "NoSchedule"));
  }
  return Enveloped("v1", "Node", pb::Bytes(1, pb::ObjectMeta("n1", "", "7")) + pb::Bytes(2, spec));
}

class StartupTaintTest : public ::testing::Test {
 protected:
  void Programmed() { taint_.ServicesProgrammed(run_.now); }

  StartupTaint taint_{"n1", "svcmap/not-ready", [] { return 1.0; }};
  WriterHarness run_{taint_};
};

TEST_F(StartupTaintTest, IsRemovedOnceTheServicesAreProgrammed) {
  EXPECT_TRUE(run_.idle());
  Programmed();
  EXPECT_EQ(run_.Next(), kGetNode);
  EXPECT_EQ(run_.waited, 0s);
  run_.Answer(200, NodeWith({"other", "svcmap/not-ready", "more"}));
  EXPECT_EQ(run_.Next(), kPatchNode);
  EXPECT_EQ(run_.request.content_type, "application/json-patch+json");
  EXPECT_EQ(run_.request.body,
            R"([{"op":"test","path":"/spec/taints/1/key","value":"svcmap/not-ready"},)"
            R"({"op":"remove","path":"/spec/taints/1"}])");
  run_.Answer(200, NodeWith({"other", "more"}));
  EXPECT_TRUE(run_.idle());
  EXPECT_THAT(run_.Lines(), ElementsAre("info: startup taint removed taint=svcmap/not-ready"));
}

TEST_F(StartupTaintTest, IsRemovedForEachOfItsEffects) {
  Programmed();
  run_.Next();
  run_.Answer(200, NodeWith({"svcmap/not-ready", "other", "svcmap/not-ready"}));
  run_.Next();
  EXPECT_EQ(run_.request.body,
            R"([{"op":"test","path":"/spec/taints/2/key","value":"svcmap/not-ready"},)"
            R"({"op":"remove","path":"/spec/taints/2"},)"
            R"({"op":"test","path":"/spec/taints/0/key","value":"svcmap/not-ready"},)"
            R"({"op":"remove","path":"/spec/taints/0"}])");
}

TEST_F(StartupTaintTest, NodesWithoutTheTaintAreNotChanged) {
  Programmed();
  run_.Next();
  run_.Answer(200, NodeWith({"svcmap/not-ready-too"}));
  EXPECT_TRUE(run_.idle());
  EXPECT_THAT(run_.Lines(), IsEmpty());
}

TEST_F(StartupTaintTest, AConflictReadsTheNodeAgain) {
  Programmed();
  run_.Next();
  run_.Answer(200, NodeWith({"svcmap/not-ready"}));
  for (const int status : {409, 422}) {
    EXPECT_EQ(run_.Next(), kPatchNode);
    run_.Reject(status, "the Node has changed");
    EXPECT_EQ(run_.Next(), kGetNode);
    EXPECT_GE(run_.waited, 1s);
    run_.Answer(200, NodeWith({"new", "svcmap/not-ready"}));
  }
  EXPECT_EQ(run_.Next(), kPatchNode);
  EXPECT_THAT(run_.request.body, HasSubstr("/spec/taints/1"));
  EXPECT_THAT(taint_.last_error(), HasSubstr("the Node has changed"));
  run_.Answer(200);
  EXPECT_TRUE(run_.idle());
  EXPECT_EQ(taint_.last_error(), "");
}

TEST_F(StartupTaintTest, AMissingRuleIsLoggedOnceAndRetriedWithBackoff) {
  Programmed();
  Clock::duration waited{};
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(run_.Next(), kGetNode);
    EXPECT_GE(run_.waited, waited);
    waited = run_.waited;
    run_.Reject(403, "User \"svcmap\" cannot get resource \"nodes\"");
  }
  EXPECT_EQ(waited, 60s);
  EXPECT_THAT(
      run_.Lines(),
      ElementsAre(AllOf(StartsWith("warning: startup taint not removed, retrying in 1000ms error="),
                        HasSubstr("RBAC rule required: get nodes, patch nodes: "),
                        HasSubstr("cannot get resource"))));
  EXPECT_THAT(taint_.last_error(), HasSubstr("patch nodes"));
}

TEST_F(StartupTaintTest, EachFailureIsRetriedFromTheStart) {
  const std::vector<std::function<void()>> failures = {
      [&] { run_.Answer(503); }, [&] { run_.Answer(404); }, [&] { run_.Answer(200, "not a Node"); },
      [&] { taint_.Ended(absl::UnavailableError("connection lost"), "", run_.now); }};
  Programmed();
  for (const auto& fail : failures) {
    EXPECT_EQ(run_.Next(), kGetNode);
    fail();
    EXPECT_THAT(run_.Lines(), SizeIs(1));
    EXPECT_EQ(run_.Next(), kGetNode);
    EXPECT_GE(run_.waited, 1s);
    run_.Answer(200, NodeWith({"svcmap/not-ready"}));
    EXPECT_EQ(run_.Next(), kPatchNode);
    run_.Answer(500);
    run_.Lines();
  }
}

// ---- Events ----

constexpr char kGetService[] = "GET /api/v1/namespaces/shop/services/web";
constexpr char kPostEvent[] = "POST /apis/events.k8s.io/v1/namespaces/shop/events";

std::string Stored(const std::string& name) {
  return Enveloped("v1", "Service", pb::Bytes(1, pb::ObjectMeta(name, "shop", "7")));
}

source::Finding AFinding(const std::string& name, const std::string& text) {
  return {v1::KIND_SERVICE, "shop", name, /*rejected=*/false, text};
}

class EventWriterTest : public ::testing::Test {
 protected:
  void Report(const source::Finding& finding) { events_.Report(finding, run_.now); }
  // Reads the Service, and returns the Event of the next request.
  nlohmann::json EventAfterRead() {
    run_.Next();
    run_.Answer(200, Stored("web"));
    EXPECT_EQ(run_.Next(), kPostEvent);
    return nlohmann::json::parse(run_.request.body);
  }

  EventWriter events_{"n1", [] { return 0.5; }};
  WriterHarness run_{events_};
};

TEST_F(EventWriterTest, AFindingBecomesAnEventOfTheService) {
  EXPECT_TRUE(run_.idle());
  Report(AFinding("web", "port 1 is wrong"));
  EXPECT_EQ(run_.Next(), kGetService);
  EXPECT_EQ(run_.waited, 2500ms);
  nlohmann::json event = EventAfterRead();
  EXPECT_EQ(run_.request.content_type, "application/json");
  EXPECT_THAT(event["eventTime"].get<std::string>(),
              ::testing::MatchesRegex("20..-..-..T..:..:..[.]......Z"));
  EXPECT_THAT(event["metadata"]["name"].get<std::string>(), StartsWith("web."));
  event.erase("eventTime");
  event["metadata"].erase("name");
  EXPECT_EQ(event, nlohmann::json::parse(R"({
    "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"namespace": "shop"},
    "type": "Warning", "reason": "PartIgnored", "note": "port 1 is wrong", "action": "Program",
    "reportingController": "svcmap", "reportingInstance": "n1",
    "regarding": {"apiVersion": "v1", "kind": "Service", "namespace": "shop", "name": "web",
                  "uid": "8f2a"}})"));
  run_.Answer(201);
  EXPECT_TRUE(run_.idle());
  EXPECT_THAT(run_.Lines(), IsEmpty());
}

// All nodes use this name, so it must not depend on the node, the time or the version of svcmap.
TEST_F(EventWriterTest, TheNameDependsOnlyOnObjectReasonAndMessage) {
  const auto name_of = [](const std::string& node, const std::string& text, bool rejected) {
    EventWriter events(node);
    WriterHarness run(events);
    source::Finding finding = AFinding("web", text);
    finding.rejected = rejected;
    events.Report(finding, run.now);
    run.Next();
    run.Answer(200, Stored("web"));
    run.Next();
    return nlohmann::json::parse(run.request.body)["metadata"]["name"].get<std::string>();
  };
  const std::string name = name_of("n1", "wrong", false);
  EXPECT_EQ(name, "web.b27729e6be89742c");
  EXPECT_EQ(name_of("n2", "wrong", false), name);
  EXPECT_NE(name_of("n1", "wrong too", false), name);
  EXPECT_NE(name_of("n1", "wrong", true), name);
}

TEST_F(EventWriterTest, AnEventOfAnotherNodeIsSufficient) {
  Report(AFinding("web", "wrong"));
  EventAfterRead();
  run_.Reject(409, "events \"web.1\" already exists");
  EXPECT_TRUE(run_.idle());
  EXPECT_THAT(run_.Lines(), IsEmpty());
}

TEST_F(EventWriterTest, DeletedObjectsGetNoEvent) {
  Report(AFinding("gone", "wrong"));
  Report(AFinding("web", "wrong"));
  EXPECT_EQ(run_.Next(), "GET /api/v1/namespaces/shop/services/gone");
  run_.Reject(404, "not found");
  EXPECT_EQ(run_.Next(), kGetService);
  EXPECT_THAT(run_.Lines(), IsEmpty());
}

TEST_F(EventWriterTest, OnlyObjectsWithANamespaceGetEvents) {
  Report({v1::KIND_NODE, "", "n1", false, "wrong"});
  Report({.text = "more than 1000 objects have findings"});
  EXPECT_TRUE(run_.idle());
  Report({v1::KIND_ENDPOINT_SLICE, "shop", "web-1", false, "wrong"});
  EXPECT_EQ(run_.Next(), "GET /apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/web-1");
}

TEST_F(EventWriterTest, MissingRulesEndAllEvents) {
  Report(AFinding("web", "wrong"));
  Report(AFinding("other", "wrong"));
  EventAfterRead();
  run_.Reject(403, "User \"svcmap\" cannot create resource \"events\"");
  EXPECT_TRUE(run_.idle());
  Report(AFinding("third", "wrong"));
  EXPECT_TRUE(run_.idle());
  EXPECT_THAT(run_.Lines(), ElementsAre(HasSubstr("create events.events.k8s.io")));
}

TEST_F(EventWriterTest, AMissingRuleForReadingIsNamed) {
  Report(AFinding("web", "wrong"));
  run_.Next();
  run_.Reject(403, "User \"svcmap\" cannot get resource \"services\"");
  EXPECT_TRUE(run_.idle());
  EXPECT_THAT(run_.Lines(), ElementsAre(HasSubstr("RBAC rules required: get services, ")));
}

TEST_F(EventWriterTest, OneRejectedEventDoesNotEndTheOthers) {
  Report(AFinding("web", "wrong"));
  Report(AFinding("web", "also wrong"));
  EventAfterRead();
  run_.Reject(403, "the namespace shop is being terminated");
  EXPECT_THAT(run_.Lines(), ElementsAre(HasSubstr("Event not created object=shop/web error=")));
  EXPECT_EQ(EventAfterRead()["note"], "also wrong");
}

TEST_F(EventWriterTest, FailuresAreRetried) {
  Report(AFinding("web", "wrong"));
  EventAfterRead();
  run_.Answer(429);
  EXPECT_EQ(run_.Next(), kGetService);
  EXPECT_GE(run_.waited, 750ms);
  run_.Answer(200, Stored("web"));
  EXPECT_EQ(run_.Next(), kPostEvent);
}

TEST_F(EventWriterTest, TheRateIsLimited) {
  int posted = 0;
  const auto post_all = [&] {
    while (!run_.idle()) {
      EventAfterRead();
      run_.Answer(201);
      ++posted;
    }
  };
  for (int i = 0; i < EventWriter::kBurst + 5; ++i) Report(AFinding("web", absl::StrCat(i)));
  post_all();
  EXPECT_EQ(posted, EventWriter::kBurst);
  EXPECT_THAT(run_.Lines(), ElementsAre(HasSubstr("too many findings")));
  run_.now += EventWriter::kInterval;
  for (int i = 0; i < 3; ++i) Report(AFinding("web", absl::StrCat("later ", i)));
  post_all();
  EXPECT_EQ(posted, EventWriter::kBurst + 1);
}

TEST_F(EventWriterTest, LongMessagesAreShortenedBetweenCharacters) {
  Report(AFinding("web", std::string(1023, 'a') + "\xc3\xa4"));
  EXPECT_EQ(EventAfterRead()["note"], std::string(1023, 'a'));
}

}  // namespace
}  // namespace svcmap::kube::test
