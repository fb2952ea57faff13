// Tests of `svcmapctl status`, `dump`, `wait`, `watch` and `version` against a fake agent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "api/cli/fd_output.h"
#include "api/cli/run.h"
#include "nft/base/unique_fd.h"
#include "tests/unit/api/cli_fake_agent.h"

namespace svcmap::api {
namespace {

using ::testing::HasSubstr;

v1::GetStatusResponse ExampleStatus() {
  return FromText<v1::GetStatusResponse>(R"(
version: "0.1.0" node_name: "n1" state: RETRYING revision: 12 kernel_generation: 34
objects { kind: KIND_SERVICE count: 1 } objects { kind: KIND_NODE count: 2 }
service_ports: 2 endpoints: 1
maps { name: "service-ips" family: "IPv4" elements: 7 }
controller { name: "svcmap-kube" instance: "pod-1" since { seconds: 1700000000 } in_snapshot: true }
last_commit { time { seconds: 1700000001 } duration { nanos: 412000 } elements: 9 }
programming_latency { count: 2 last { nanos: 3200000 } longest { seconds: 2 } }
stages { name: "queue" count: 4 sum { nanos: 50000 } longest { nanos: 412000 } }
stages { name: "plan" sum {} longest { nanos: 412000 } }
pending_changes: 3 last_error: "ENOSPC\nagain" refused_objects: 1
findings { message: "Service shop/web rejected: ..." }
findings { message: "Service shop/api rejected: ..." }
refused_calls: 5 failed_handshakes: 1 repairs: 2 repaired_elements: 3 repaired_chains: 1
verified: true watching: true audits: 4 elements_written: 17 kernel_refused_services: 1
saved_state { folder: "/var/lib/svcmap" bytes: 4096 synced { seconds: 1700000001 } }
started { seconds: 1699999999 }
)");
}

TEST(CliStatusTest, ThePhaseIsShownIfTheStateDoesNotShowIt) {
  for (const auto& [phase, text] : {std::pair(v1::PHASE_SERVING, "serving, revision"),
                                    {v1::PHASE_LOADING, "serving (loading), revision"},
                                    {v1::PHASE_REWRITING, "serving (rewriting the tables), "},
                                    {v1::PHASE_REPAIRING, "serving (repairing the tables), "}}) {
    v1::GetStatusResponse status = ExampleStatus();
    status.set_state(v1::SERVING);
    status.set_phase(phase);
    const FakeAgent agent({.status = status});
    EXPECT_THAT(Ctl(agent, {"status"}).out, HasSubstr(text));
  }
}

TEST(CliStatusTest, ExistingRulesAreNamedOnlyIfThePreviousRunLeftThem) {
  v1::GetStatusResponse status = ExampleStatus();
  status.set_state(v1::WAITING_FOR_STATE);
  status.set_phase(v1::PHASE_WAITING);
  status.clear_manifests_path();
  const auto shown = [&] {
    const FakeAgent agent({.status = status});
    return Ctl(agent, {"status"}).out;
  };
  constexpr char kSnapshot[] =
      "Waiting for  a complete snapshot (from a controller or from svcmapctl apply --prune)";
  EXPECT_THAT(shown(), HasSubstr(absl::StrCat(kSnapshot, "\n")));
  status.set_phase(v1::PHASE_HOLDING);
  EXPECT_THAT(shown(), HasSubstr(absl::StrCat(kSnapshot, "; existing rules stay in effect\n")));
  status.set_manifests_path("/etc/m");
  EXPECT_THAT(shown(), HasSubstr("Waiting for  manifests without errors in --manifests /etc/m; "));
}

TEST(CliStatusTest, Text) {
  const FakeAgent agent({.status = ExampleStatus()});
  const CtlResult result = Ctl(agent, {"status"});
  EXPECT_EQ(result.code, 0);
  const std::string page =
      "Agent        svcmapd 0.1.0 on node n1, started 2023-11-14T22:13:19Z\n"
      "State        retrying, revision 12\n"
      "Last error   ENOSPC\\nagain\n"
      "Controller   svcmap-kube (pod-1), connected since 2023-11-14T22:13:20Z, sending a snapshot\n"
      "Last commit  2023-11-14T22:13:21Z, 9 elements in 0.41 ms\n"
      "Latency      last 3.20 ms, maximum 2.0 s (endpoint change to commit)\n"
      "Pending      3 changed objects not yet committed\n"
      "Objects      1 service, 2 nodes\n"
      "Rejected     1 object\n"
      "Rejected     1 Service by the kernel\n"
      "Unauthorized 5 calls and 1 TLS handshake, see the agent's log\n"
      "Programmed   2 Service ports, 1 endpoint slot\n"
      "Kernel       matches the last commit, external changes are monitored\n"
      "Repairs      2 (3 elements and 1 chain or object changed by other processes)\n"
      "Saved state  /var/lib/svcmap, 4096 bytes, synced at 2023-11-14T22:13:21Z\n"
      "Findings\n"
      "  Service shop/web rejected: ...\n"
      "  Service shop/api rejected: ...\n";
  constexpr TerminalSize kScreen = {.columns = 100, .rows = 50};
  EXPECT_EQ(Ctl(agent, {"status"}, "", kScreen).out, page);
  EXPECT_EQ(result.out,
            page +
                "Counters     kernel generation 34, 4 audits, 17 elements written\n"
                "Stages       queue    count       4, average 12.5 us, maximum 0.41 ms\n"
                "Maps         service-ips                  IPv4          7\n");
  EXPECT_EQ(Ctl(agent, {"status", "--verbose"}, "", kScreen).out, result.out);
}

// If a table is missing, the agent counts a repair without elements and chains.
TEST(CliStatusTest, ADeletedTableIsNotARepairOfZeroElements) {
  v1::GetStatusResponse status = ExampleStatus();
  status.set_repairs(1);
  status.set_repaired_elements(0);
  status.set_repaired_chains(0);
  const FakeAgent agent({.status = status});
  EXPECT_THAT(
      Ctl(agent, {"status"}).out,
      HasSubstr(
          "\nRepairs      1 (tables deleted or damaged by other processes, written again)\n"));
}

TEST(CliStatusTest, TheTextFitsTheTerminal) {
  v1::GetStatusResponse status = ExampleStatus();
  for (int i = 0; i < 20; ++i) {
    status.add_findings()->set_message(
        "Service shop/web rejected: spec.ports[0].port: Invalid value: 70000: must be between 1 "
        "and "
        "65535, inclusive; the previously accepted version, if any, stays in effect");
  }
  const FakeAgent agent({.status = status});
  const std::string out = Ctl(agent, {"status"}, "", {.columns = 80, .rows = 24}).out;
  const std::vector<std::string> lines = absl::StrSplit(out, '\n');
  EXPECT_LE(lines.size(), 24u) << out;  // The last line is empty and contains the prompt.
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(out, HasSubstr("\n  and 19 more; svcmapctl status --verbose prints all findings\n"));
  EXPECT_THAT(Ctl(agent, {"status", "-v"}, "", {.columns = 80, .rows = 24}).out,
              HasSubstr("65535, inclusive; the previously accepted version, if any,\n    stays in "
                        "effect\nCounters "));
}

TEST(CliVersionTest, PrintsBothVersions) {
  const FakeAgent agent({.status = ExampleStatus()});
  const CtlResult result = Ctl(agent, {"version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("\nsvcmapd 0.1.0 on node n1\n"));
  EXPECT_EQ(Ctl({"--version"}).out + "svcmapd 0.1.0 on node n1\n", result.out);
  EXPECT_EQ(Ctl({"version", "--address", "unix:///no/agent"}).code, 3);
}

TEST(CliStatusTest, TextOfABadDay) {
  v1::GetStatusResponse status = ExampleStatus();
  status.set_verified(false);
  status.set_watching(false);
  status.mutable_saved_state()->set_error("No space left on device (ENOSPC)");
  const FakeAgent agent({.status = status});
  const std::string text = Ctl(agent, {"status"}).out;
  EXPECT_THAT(text, HasSubstr("Kernel       not yet verified, external changes are NOT monitored"));
  EXPECT_THAT(text, HasSubstr("Saved state  NOT written to /var/lib/svcmap: No space left"));
}

TEST(CliStatusTest, JsonAndYaml) {
  const FakeAgent agent({.status = ExampleStatus()});
  EXPECT_THAT(Ctl(agent, {"status", "-o", "json"}).out, HasSubstr("\"revision\": 12,\n"));
  EXPECT_THAT(Ctl(agent, {"status", "-o", "yaml"}).out, HasSubstr("\nrevision: 12\n"));
}

TEST(CliStatusTest, AddressFromTheEnvironment) {
  const FakeAgent agent({.status = ExampleStatus()});
  setenv("SVCMAP_ADDRESS", agent.address().c_str(), 1);
  EXPECT_EQ(Ctl({"status"}).code, 0);
  setenv("SVCMAP_ADDRESS", "nonsense", 1);
  EXPECT_EQ(Ctl({"status"}).code, 2);
  unsetenv("SVCMAP_ADDRESS");
}

UniqueFd ListenAt(const std::string& path) {
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {.sun_family = AF_UNIX};
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(listen(listener.get(), 1), 0);
  return listener;
}

TEST(CliStatusTest, NoAgentAnswersOnTheSocket) {
  const std::string path = FreshSocketPath();
  const UniqueFd listener = ListenAt(path);
  const CtlResult result = Ctl({"status", "--timeout", "200ms", "--address", "unix://" + path});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr(": connection timed out after 200ms\n"));
}

TEST(CliDumpTest, PartsAreJoined) {
  const FakeAgent agent({.dump = {"table ip svc", "map {\n", "}\n"}});
  const CtlResult result = Ctl(agent, {"dump", "applied"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "table ip svcmap {\n}\n");
  EXPECT_EQ(agent.seen().dump.at(0).what(), v1::DumpRequest::APPLIED);
}

TEST(CliDumpTest, AStreamThatStopsIsNoticed) {
  const FakeAgent agent({.hang = true, .dump = {"table ip svcmap {\n"}});
  const CtlResult result = Ctl(agent, {"dump", "plan", "--timeout", "200ms"});
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.out, "table ip svcmap {\n");
  EXPECT_THAT(result.err, HasSubstr("no response from the agent at " + agent.address() +
                                    ": timed out after 200ms\n"));
}

// A stream buffer that fails after a limited number of bytes, like a closed pipe.
class ShortBuffer : public std::stringbuf {
 protected:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    return (left_ -= size) < 0 ? 0 : std::stringbuf::xsputn(text, size);
  }

 private:
  std::streamsize left_ = 1000;
};

TEST(CliDumpTest, ABrokenPipeEndsQuietlyAndEarly) {
  // The agent never ends the stream, so the command must stop when its output is closed.
  const FakeAgent agent(
      {.hang = true, .dump = std::vector<std::string>(100, std::string(100, 'x'))});
  std::istringstream in;
  ShortBuffer buffer;
  std::ostream out(&buffer);
  std::ostringstream err;
  EXPECT_EQ(svcmap::api::Run({"dump", "applied", "--address", agent.address()}, in, out, err), 0);
  EXPECT_EQ(err.str(), "");
}

TEST(CliWaitTest, Reached) {
  v1::GetStatusResponse status = ExampleStatus();
  status.set_state(v1::SERVING);
  status.clear_last_error();
  const FakeAgent agent({.status = status});
  for (const char* what : {"serving", "controller", "revision=12", "revision=11"}) {
    const CtlResult result = Ctl(agent, {"wait", "--for", what});
    EXPECT_EQ(result.code, 0) << what;
    EXPECT_EQ(result.out, "serving, revision 12\n");
  }
}

TEST(CliWaitTest, AnAgentThatComesUpLater) {
  const std::string path = FreshSocketPath();
  v1::GetStatusResponse status;
  status.set_state(v1::SERVING);
  // The first connection is closed, so that the agent starts after a failed attempt.
  UniqueFd listener = ListenAt(path);
  std::optional<FakeAgent> agent;
  std::thread later([&] {
    UniqueFd(accept(listener.get(), nullptr, nullptr)).Close();
    listener.Close();
    unlink(path.c_str());
    agent.emplace(FakeAnswers{.status = status}, -1, path);
  });
  const CtlResult result = Ctl({"wait", "--timeout", "20s", "--address", "unix://" + path});
  later.join();
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST(CliWaitTest, NoAgentAtAll) {
  const std::string address = "unix://" + FreshSocketPath();
  const CtlResult result = Ctl({"wait", "--timeout", "2s", "--address", address});
  EXPECT_EQ(result.code, 5);
  EXPECT_EQ(
      result.err,
      absl::StrCat("error: wait --for serving: timed out after 2s; cannot reach the agent at ",
                   address, ": No such file or directory\n"));
}

TEST(CliWaitTest, AnAgentThatRejectsIsNotAskedAgain) {
  const FakeAgent agent({.error = absl::UnimplementedError("no such call")});
  EXPECT_EQ(Ctl(agent, {"wait", "--timeout", "20s"}).code, 4);
}

// Tests of `svcmapctl watch` against a fake agent.

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
