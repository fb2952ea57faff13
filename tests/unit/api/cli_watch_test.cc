// svcmapctl watch, against a fake agent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "api/cli/watch_text.h"
#include "google/protobuf/text_format.h"
#include "tests/unit/api/cli_fake_agent.h"

namespace svcmap::api {
namespace {

using ::testing::HasSubstr;

v1::WatchEvent AnEvent(const std::string& text) {
  v1::WatchEvent event;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &event)) << text;
  event.mutable_time()->set_seconds(1'700'000'000);
  event.mutable_time()->set_nanos(42'000'000);
  return event;
}

// The lines without their time.
std::string Said(const std::string& text) {
  std::string said;
  const std::string time = "2023-11-14T22:13:20.042Z ";
  std::string lines = WatchText(AnEvent(text));
  while (!lines.empty()) {
    const size_t end = lines.find('\n') + 1;
    EXPECT_EQ(lines.substr(0, time.size()), time);
    said += lines.substr(time.size(), end - time.size());
    lines.erase(0, end);
  }
  return said;
}

TEST(WatchTextTest, EveryEventIsALine) {
  const struct {
    const char* event;
    const char* said;
  } cases[] = {
      {"status { version: \"0.1.0\" node_name: \"n1\" state: SERVING revision: 6 }",
       "svcmapd 0.1.0 on node n1: serving, revision 6\n"},
      {"commit { revision: 7 elements: 3 services: 2 duration { nanos: 130000 } }",
       "revision 7: 3 elements of 2 Services in 0.13 ms\n"},
      {"commit { revision: 7 elements: 1 duration { nanos: 130000 } }",
       "revision 7: 1 element in 0.13 ms\n"},
      {"commit { revision: 1 elements: 25 services: 1 tables_written: true "
       "duration { nanos: 1200000 } }",
       "revision 1: tables written whole, 25 elements of 1 Service in 1.20 ms\n"},
      {"repair { outcome: REPAIRED damage: \"3 elements deleted from endpoints\" "
       "process: \"nft (pid 7)\" elements: 3 chains: 1 duration { nanos: 200000 } }",
       "repaired: 3 elements deleted from endpoints by nft (pid 7); 3 elements and 1 chain put "
       "right "
       "in 0.20 ms\n"},
      {"repair { outcome: REPAIRED elements: 1 duration { nanos: 200000 } }",
       "repaired: the kernel was not as committed; 1 element and 0 chains put right in 0.20 ms\n"},
      {"repair { outcome: REWRITE damage: \"table deleted\" process: \"nft (pid 7)\" }",
       "not repaired: table deleted by nft (pid 7); too much is wrong, writing the tables again\n"},
      {"repair { outcome: NOT_YET error: \"read: no\\nbuffer\" }",
       "not repaired: the kernel was not as committed; read: no\\nbuffer; trying again\n"},
      {"sync_failed { error: \"ENOSPC\" }",
       "the kernel did not take a batch: ENOSPC; trying again\n"},
      {"recovered { revision: 9 failures: 4 after { seconds: 1 nanos: 200000000 } }",
       "recovered after 4 failures in 1.2 s, revision 9\n"},
      {"controller { what: CAME name: \"kube\" instance: \"pod-7\" epoch: 3 }",
       "controller kube (pod-7), epoch 3, came\n"},
      {"controller { what: LEFT name: \"kube\" }", "controller kube left\n"},
      {"controller { what: REPLACED name: \"kube\" reason: \"other (pod-8)\" }",
       "controller kube was replaced by other (pod-8)\n"},
      {"controller { what: FENCED name: \"kube\" epoch: 2 reason: \"open.epoch 2 is lower\" }",
       "controller kube, epoch 2, was refused: open.epoch 2 is lower\n"},
      {"", "something that this version of svcmapctl does not know\n"},
  };
  for (const auto& [event, said] : cases) EXPECT_EQ(Said(event), said) << event;
}

TEST(WatchTextTest, EveryFindingIsALine) {
  EXPECT_EQ(Said("findings { results { message: \"Service a/b refused: x\" } "
                 "results { kind: KIND_SERVICE namespace: \"c\" name: \"d\" reason: \"is\\nodd\" } "
                 "more: 5 }"),
            "Service a/b refused: x\nservice/c/d is\\nodd\n5 more findings\n");
}

TEST(WatchTextTest, WhatWasLostIsSaidFirst) {
  EXPECT_EQ(Said("lost: 12 sync_failed { error: \"x\" }"),
            "12 events lost: not read as fast as they came\n"
            "the kernel did not take a batch: x; trying again\n");
}

TEST(CliWatchTest, EventsAreTextUntilTheAgentGoesAway) {
  const FakeAgent agent({.error = absl::UnavailableError("the agent is stopping"),
                         .watch = {AnEvent("sync_failed { error: \"x\" }"),
                                   AnEvent("controller { what: LEFT name: \"kube\" }")}});
  const CtlResult result = Ctl(agent, {"watch"});
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.out,
            "2023-11-14T22:13:20.042Z the kernel did not take a batch: x; trying again\n"
            "2023-11-14T22:13:20.042Z controller kube left\n");
  EXPECT_THAT(result.err, HasSubstr("the connection broke off: the agent is stopping"));
}

TEST(CliWatchTest, JsonIsOneObjectPerLine) {
  const FakeAgent agent({.watch = {AnEvent("number: 5 lost: 2 commit { revision: 7 }"),
                                   AnEvent("number: 6 findings { results { name: \"a\\nb\" } "
                                           "results { name: \"c\" } }")}});
  const CtlResult result = Ctl(agent, {"watch", "-o", "json"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  const size_t first = result.out.find('\n');
  EXPECT_EQ(result.out.substr(0, first),
            "{\"number\": 5, \"time\": \"2023-11-14T22:13:20.042Z\", \"lost\": 2, "
            "\"commit\": {\"revision\": 7, \"elements\": 0, \"services\": 0, "
            "\"tablesWritten\": false}}");
  EXPECT_EQ(result.out.find('\n', first + 1), result.out.size() - 1);
  EXPECT_THAT(result.out, HasSubstr("\"results\": [{\"kind\": "));
  EXPECT_THAT(result.out, HasSubstr("\"name\": \"a\\u000ab\""));
}

TEST(CliWatchTest, AnAgentThatSaysNothingAtFirstIsNotWaitedFor) {
  const FakeAgent agent({.hang = true});
  const CtlResult result = Ctl(agent, {"watch", "--timeout", "100ms"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("no answer within 100ms"));
}

TEST(CliWatchTest, AnAgentThatRefusesIsSaid) {
  const FakeAgent agent({.error = absl::ResourceExhaustedError("no more than --max-watchers 16")});
  const CtlResult result = Ctl(agent, {"watch"});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, HasSubstr("RESOURCE_EXHAUSTED: no more than --max-watchers 16"));
}

}  // namespace
}  // namespace svcmap::api
