// Tests of `svcmapctl watch` against a fake agent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <ostream>
#include <sstream>
#include <string>
#include <thread>

#include "api/cli/fd_output.h"
#include "api/cli/run.h"
#include "nft/base/unique_fd.h"
#include "tests/unit/api/cli_fake_agent.h"

namespace svcmap::api {
namespace {

using ::testing::HasSubstr;

v1::WatchEvent AnEvent(const std::string& text) {
  auto event = FromText<v1::WatchEvent>(text);
  event.mutable_time()->set_seconds(1'700'000'000);
  event.mutable_time()->set_nanos(42'000'000);
  return event;
}

// Returns the reported lines without the timestamp at the beginning.
std::string Reported(const std::string& text) {
  std::string reported;
  const std::string time = "2023-11-14T22:13:20.042Z ";
  const FakeAgent agent({.watch = {AnEvent(text)}});
  std::string lines = Ctl(agent, {"watch"}).out;
  while (!lines.empty()) {
    const size_t end = lines.find('\n') + 1;
    EXPECT_EQ(lines.substr(0, time.size()), time);
    reported += lines.substr(time.size(), end - time.size());
    lines.erase(0, end);
  }
  return reported;
}

TEST(WatchTextTest, EveryEventIsALine) {
  const struct {
    const char* event;
    const char* reported;
  } cases[] = {
      {"status { version: \"0.1.0\" node_name: \"n1\" state: SERVING revision: 6 }",
       "agent status version=0.1.0 node=n1 state=serving revision=6\n"},
      {"commit { revision: 7 elements: 3 services: 2 duration { nanos: 130000 } }",
       "committed revision=7 elements=3 services=2 duration_ms=0.13\n"},
      {"commit { revision: 7 elements: 1 duration { nanos: 130000 } }",
       "committed revision=7 elements=1 services=0 duration_ms=0.13\n"},
      {"commit { revision: 1 elements: 25 services: 1 tables_written: true "
       "duration { nanos: 1200000 } }",
       "committed revision=1 elements=25 services=1 rewrite=full duration_ms=1.20\n"},
      {"repair { outcome: REPAIRED damage: \"3 elements deleted from endpoints\" "
       "process: \"nft (pid 7)\" elements: 3 chains: 1 duration { nanos: 200000 } }",
       "kernel state repaired damage=\"3 elements deleted from endpoints\" process=\"nft (pid 7)\" "
       "elements=3 chains_and_objects=1 duration_ms=0.20\n"},
      {"repair { outcome: REPAIRED elements: 1 duration { nanos: 200000 } }",
       "kernel state repaired elements=1 chains_and_objects=0 duration_ms=0.20\n"},
      {"repair { outcome: REWRITE damage: \"table deleted\" process: \"nft (pid 7)\" }",
       "kernel state damaged, rewriting the tables completely damage=\"table deleted\" "
       "process=\"nft (pid 7)\"\n"},
      {"repair { outcome: NOT_YET error: \"read: no\\nbuffer\" }",
       "repair failed, retrying error=\"read: no\\nbuffer\"\n"},
      {"sync_failed { error: \"ENOSPC\" }", "commit failed, retrying error=ENOSPC\n"},
      {"recovered { revision: 9 failures: 4 after { seconds: 1 nanos: 200000000 } }",
       "commit recovered failures=4 duration_ms=1200.00 revision=9\n"},
      {"controller { what: CAME name: \"kube\" instance: \"pod-7\" epoch: 3 }",
       "controller connected name=kube instance=pod-7 epoch=3\n"},
      {"controller { what: LEFT name: \"kube\" }", "controller disconnected name=kube\n"},
      {"controller { what: REPLACED name: \"kube\" reason: \"other (pod-8)\" }",
       "controller replaced name=kube by=\"other (pod-8)\"\n"},
      {"controller { what: FENCED name: \"kube\" epoch: 2 reason: \"open.epoch 2 is lower\" }",
       "controller rejected name=kube epoch=2 reason=\"open.epoch 2 is lower\"\n"},
      {"", "unknown event, not supported by this version of svcmapctl\n"},
  };
  for (const auto& [event, reported] : cases) EXPECT_EQ(Reported(event), reported) << event;
}

TEST(WatchTextTest, EveryFindingIsALine) {
  EXPECT_EQ(
      Reported("findings { results { message: \"Service a/b rejected: x\" } "
               "results { kind: KIND_SERVICE namespace: \"c\" name: \"d\" reason: \"is\\nodd\" } "
               "more: 5 }"),
      "Service a/b rejected: x\nservice/c/d is\\nodd\nfindings omitted count=5\n");
}

TEST(WatchTextTest, WhatWasLostIsReportedFirst) {
  EXPECT_EQ(Reported("lost: 12 sync_failed { error: \"x\" }"),
            "events lost because svcmapctl read too slowly count=12\n"
            "commit failed, retrying error=x\n");
}

TEST(CliWatchTest, EventsAreTextUntilTheAgentGoesAway) {
  const FakeAgent agent({.error = absl::UnavailableError("the agent is stopping"),
                         .watch = {AnEvent("sync_failed { error: \"x\" }"),
                                   AnEvent("controller { what: LEFT name: \"kube\" }")}});
  const CtlResult result = Ctl(agent, {"watch"});
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.out,
            "2023-11-14T22:13:20.042Z commit failed, retrying error=x\n"
            "2023-11-14T22:13:20.042Z controller disconnected name=kube\n");
  EXPECT_THAT(result.err, HasSubstr("connection lost: the agent is stopping"));
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
            "{\"number\":5,\"time\":\"2023-11-14T22:13:20.042Z\",\"lost\":2,"
            "\"commit\":{\"revision\":7,\"elements\":0,\"services\":0,"
            "\"tablesWritten\":false}}");
  EXPECT_EQ(result.out.find('\n', first + 1), result.out.size() - 1);
  EXPECT_THAT(result.out, HasSubstr("\"results\":[{\"kind\":"));
  EXPECT_THAT(result.out, HasSubstr("\"name\":\"a\\nb\""));
}

TEST(CliWatchTest, AClosedOutputEndsTheCommandWithoutAnotherEvent) {
  const FakeAgent agent({.error = absl::UnavailableError("the agent is stopping"),
                         .hang = true,
                         .watch = {AnEvent("sync_failed { error: \"x\" }")}});
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd write_end(ends[1]);
  std::jthread head([read_end = UniqueFd(ends[0])] {
    char byte = 0;
    EXPECT_EQ(read(read_end.get(), &byte, 1), 1);
  });
  FdOutput output(write_end.get());
  std::ostream out(&output);
  std::istringstream in;
  std::ostringstream err;
  EXPECT_EQ(api::Run({"watch", "--address", agent.address()}, in, out, err), 0);
  EXPECT_EQ(err.str(), "");
  EXPECT_EQ(output.error(), EPIPE);
}

TEST(CliWatchTest, AnAgentThatSaysNothingAtFirstIsNotWaitedFor) {
  const FakeAgent agent({.hang = true});
  const CtlResult result = Ctl(agent, {"watch", "--timeout", "100ms"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("timed out after 100ms"));
}

}  // namespace
}  // namespace svcmap::api
