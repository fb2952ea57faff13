// Tests of `svcmapctl apply` and `svcmapctl delete` against a fake agent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/api/cli_fake_agent.h"

namespace svcmap::api {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kTwoObjects[] = R"(
kind: Service
apiVersion: v1
metadata: {namespace: shop, name: web}
spec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}
---
kind: Node
apiVersion: v1
metadata: {name: n1}
)";

v1::Ack Committed(uint64_t revision) {
  v1::Ack ack;
  ack.set_revision(revision);
  ack.set_outcome(v1::COMMITTED);
  ack.mutable_commit_duration()->set_nanos(412'000);
  ack.mutable_queue_duration()->set_nanos(51'000);
  return ack;
}

v1::ObjectResult* AddResult(v1::Ack& ack, v1::Severity severity, const std::string& message) {
  v1::ObjectResult* result = ack.add_results();
  result->set_kind(v1::KIND_SERVICE);
  result->set_namespace_("shop");
  result->set_name("web");
  result->set_severity(severity);
  result->set_message(message);
  return result;
}

// The fake agent stores the Node of kTwoObjects and two Services.
v1::ListResponse Stored(const char* first = "web", const char* second = "api") {
  v1::ListResponse stored;
  stored.add_objects()->mutable_node()->mutable_metadata()->set_name("n1");
  for (const char* name : {first, second}) {
    v1::ObjectMeta* metadata = stored.add_objects()->mutable_service()->mutable_metadata();
    metadata->set_namespace_("shop");
    metadata->set_name(name);
  }
  return stored;
}

FakeAnswers WithStoredObjects(v1::Ack ack) {
  FakeAnswers answers{.ack = std::move(ack), .list = {Stored("old", "older")}};
  answers.dry_run.emplace().set_outcome(v1::UNCHANGED);
  return answers;
}

// Results contain invalid names in escaped form.
TEST(CliApplyTest, RejectedObjectsWithInvalidNamesAreRecognized) {
  v1::Ack ack = Committed(13);
  AddResult(ack, v1::REFUSED, "Service shop/we\\u000ab rejected")->set_name("we\\u000ab");
  const FakeAgent agent({.ack = ack});
  const CtlResult result = Ctl(agent, {"apply", "-f", "-"},
                               "apiVersion: v1\nkind: Service\n"
                               "metadata: {namespace: shop, name: \"we\\nb\"}\n"
                               "spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}\n");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("service/shop/we\\u000ab rejected\n"));
  EXPECT_EQ(result.err, "error: (stdin): document 1, line 1: Service shop/we\\u000ab rejected\n");
}

TEST(CliApplyTest, NoAgent) {
  const std::string address = "unix://" + FreshSocketPath();
  const CtlResult result = Ctl({"apply", "-f", "-", "--address", address}, kTwoObjects);
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.err, absl::StrCat("error: cannot reach the agent at ", address,
                                     ": No such file or directory; 2 objects not sent\n"));
}

TEST(CliApplyTest, WarningsDoNotChangeTheExitCode) {
  v1::Ack ack = Committed(13);
  AddResult(ack, v1::WARNING, "")->set_reason("is odd\x1b[1m");
  const FakeAgent agent({.ack = ack});
  const CtlResult result = Ctl(agent, {"apply", "-f", "-"}, kTwoObjects);
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("service/shop/web applied\n"));
  EXPECT_EQ(result.err, "warning: (stdin): document 1, line 2: service/shop/web is odd\\x1b[1m\n");
}

TEST(CliApplyTest, OutcomesOtherThanCommitted) {
  v1::Ack ack;
  ack.set_revision(3);
  ack.set_outcome(v1::HELD);
  CtlResult result = Ctl(FakeAgent({.ack = ack}), {"apply", "-f", "-"}, kTwoObjects);
  EXPECT_EQ(result.code, 10);
  EXPECT_THAT(result.out,
              HasSubstr("node/n1 stored, not programmed\nrevision 3, stored, not programmed\n"));
  EXPECT_THAT(result.err, HasSubstr("error: nothing is programmed: "));
  EXPECT_THAT(result.err,
              HasSubstr("remedy: connect a controller, or run svcmapctl apply --prune"));

  ack.set_outcome(v1::UNCHANGED);
  result = Ctl(FakeAgent({.ack = ack}), {"apply", "-f", "-"}, kTwoObjects);
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("node/n1 applied\nrevision 3, no kernel changes needed"));

  ack.set_outcome(v1::FAILED);
  ack.set_error("add element to service-ips: No space left on device (ENOSPC)");
  AddResult(ack, v1::REFUSED, "Service shop/web rejected");
  result = Ctl(FakeAgent({.ack = ack}), {"apply", "-f", "-"}, kTwoObjects);
  EXPECT_EQ(result.code, 6);
  EXPECT_THAT(result.out,
              HasSubstr("node/n1 stored, not committed\nrevision 3, not committed to the kernel"));
  EXPECT_THAT(result.err,
              HasSubstr("error: the kernel rejected the change: add element to service-ips: No "
                        "space left on device (ENOSPC); the agent stores"));
}

constexpr char kOneBad[] =
    "kind: Service\n  x: [\n---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\n";

TEST(CliApplyTest, WhatCannotBeReadIsLeftOutAndTheRestSent) {
  const FakeAgent agent({.ack = Committed(1)});
  const CtlResult result = Ctl(agent, {"apply", "-f", "-", "-f", "/nonexistent.yaml"}, kOneBad);
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("error: (stdin): document 1, line 2: invalid YAML: "));
  EXPECT_THAT(result.err, HasSubstr("; not sent\nerror: /nonexistent.yaml: No such file"));
  EXPECT_THAT(result.out, HasSubstr("node/n1 applied\n"));
  EXPECT_THAT(agent.seen().apply, SizeIs(1));
}

constexpr char kUnknownField[] =
    "kind: Service\napiVersion: v1\nmetadata: {namespace: shop, name: web}\n"
    "spec: {clusterIP: 10.96.0.10, externalTraficPolicy: Local, ports: [{port: 80}]}\n";
constexpr char kUnknownWarning[] =
    "warning: (stdin): document 1, line 4: Service shop/web: spec.externalTraficPolicy: unknown "
    "field, which is ignored; did you mean \"externalTrafficPolicy\"?\n";

TEST(CliApplyTest, UnknownFieldsCauseAWarning) {
  const CtlResult applied =
      Ctl(FakeAgent({.ack = Committed(12)}), {"apply", "-f", "-"}, kUnknownField);
  EXPECT_EQ(applied.code, 0);
  EXPECT_EQ(applied.err, kUnknownWarning);
}

// With --prune, each input would delete objects by mistake.
TEST(CliApplyTest, StrictAndPruneSendNothingOfASuspiciousInput) {
  const struct {
    const char* name;
    std::string input;
    const char* reason;
  } cases[] = {
      {"unreadable document", kOneBad,
       ", not even 1 valid object, because a manifest cannot be read"},
      {"no readable document", "[", ", because a manifest cannot be read"},
      {"unknown field", kUnknownField, ", not even 1 valid object, because a field is unknown"},
      {"unknown kind", absl::StrCat("---\n{apiVersion: v1, kind: Serwice}\n---", kTwoObjects),
       ", not even 2 valid objects, because the kind of an object is unknown"},
  };
  const FakeAgent agent(WithStoredObjects(Committed(9)));
  for (const auto& c : cases) {
    for (const std::vector<std::string>& flags :
         {std::vector<std::string>{"--strict"}, {"--prune"}, {"--prune", "--dry-run"}}) {
      std::vector<std::string> arguments = {"apply", "-f", "-"};
      arguments.insert(arguments.end(), flags.begin(), flags.end());
      const CtlResult result = Ctl(agent, arguments, c.input);
      EXPECT_EQ(result.code, 1) << c.name;
      EXPECT_EQ(result.out, "") << c.name;
      EXPECT_THAT(result.err, HasSubstr(absl::StrCat("error: ", flags[0], ": nothing was sent",
                                                     c.reason, "\n")))
          << c.name;
    }
  }
  const CtlResult empty = Ctl(agent, {"apply", "--prune", "-f", "-"}, "");
  EXPECT_EQ(empty.code, 1);
  EXPECT_THAT(empty.err,
              HasSubstr("error: --prune: nothing was sent, because the input contains no "
                        "objects and all objects would be deleted; use --allow-empty"));
  EXPECT_THAT(agent.seen().apply, IsEmpty());
  EXPECT_THAT(agent.seen().push, IsEmpty());
}

TEST(CliApplyTest, NothingToSendIsAnError) {
  const FakeAgent agent({});
  const CtlResult result = Ctl(agent, {"apply", "-f", "-"}, "apiVersion: v1\nkind: Pod\n");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("warning: (stdin): document 1, line 1: Pod"));
  EXPECT_THAT(result.err, HasSubstr("error: no objects to apply; nothing was sent\n"));
}

std::string Nodes(int count, size_t bytes = 0, int first = 0) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&text, "---\napiVersion: v1\nkind: Node\nmetadata: {name: n", first + i,
                    ", labels: {x: \"", std::string(bytes, 'x'), "\"}}\n");
  }
  return text;
}

TEST(CliApplyTest, TooMuchForOneRequestIsSplit) {
  const FakeAgent agent({.ack = Committed(1)}, /*max_bytes=*/3000);
  const CtlResult result = Ctl(agent, {"apply", "-f", "-"}, Nodes(10, 1000));
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("exceeds the agent's size limit and is split: each part is "
                                    "applied atomically\n"));
  EXPECT_THAT(result.out, HasSubstr("node/n0 applied\n"));
  EXPECT_THAT(result.out, HasSubstr("node/n9 applied\n"));
  EXPECT_THAT(agent.seen().apply, SizeIs(5));
}

TEST(CliApplyTest, AnObjectTooLargeIsNamed) {
  const FakeAgent agent({.ack = Committed(1)}, /*max_bytes=*/3000);
  const CtlResult result =
      Ctl(agent, {"apply", "-f", "-"}, Nodes(1) + Nodes(1, 9000, 1) + Nodes(3, 0, 2));
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, HasSubstr("error: node/n1: 9"));
  EXPECT_THAT(result.err, HasSubstr(" exceed the agent's size limit for a request\n"));
  EXPECT_THAT(result.err,
              HasSubstr("note: 1 object sent before the error, 3 remaining not sent\n"));
}

TEST(CliApplyTest, NoAnswer) {
  const FakeAgent agent({.hang = true});
  const CtlResult result = Ctl(agent, {"apply", "-f", "-", "--timeout", "200ms"}, kTwoObjects);
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.err, absl::StrCat("error: no response from the agent at ", agent.address(),
                                     ": timed out after 200ms; the agent may have processed the 2 "
                                     "objects; sending the request again is safe\n"));
}

TEST(CliDeleteTest, AMissingObjectIsAnErrorAndTheOthersAreDeleted) {
  const FakeAgent agent({.ack = Committed(14), .list = {Stored()}});
  CtlResult result = Ctl(agent, {"delete", "svc", "shop/web", "api"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err,
            "error: services \"api\" not found in namespace \"default\"; found in namespace "
            "\"shop\"\n");
  EXPECT_THAT(result.out, HasSubstr("service/shop/web deleted\nrevision 14"));
  result = Ctl(agent, {"delete", "svc", "shop/x"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "error: services \"x\" not found in namespace \"shop\"\n");
  EXPECT_EQ(result.out, "");
  result = Ctl(agent, {"delete", "svc", "shop/x", "--ignore-not-found"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out + result.err, "");
  EXPECT_THAT(agent.seen().remove, SizeIs(1));
}

TEST(CliDeleteTest, ByFileAlsoWhenPartOfItIsBad) {
  const FakeAgent agent({.ack = Committed(15), .list = {Stored()}});
  const CtlResult result = Ctl(agent, {"delete", "-f", "-"}, kOneBad);
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("; not deleted\n"));
  EXPECT_THAT(result.out, HasSubstr("node/n1 deleted\n"));
  EXPECT_EQ(Ctl(agent, {"delete", "-f", "-"}, "").code, 1);
}

v1::Ack WouldChange() {
  return FromText<v1::Ack>(R"(revision: 12 outcome: WOULD_CHANGE dry_run {
    elements { change: DELETED family: "IPv6" set: "service-ips" key: "fd00::a . tcp . 80" }
    elements { change: ADDED family: "IPv4" set: "service-ips" key: "10.96.0.10 . tcp . 80"
               data: "2.0.0.1" comment: "shop/web:http" }
    deleted: 1 added: 1 })");
}

TEST(CliDryRunTest, DeletesNothingAndRealCallsDoNotAsk) {
  const FakeAgent agent({.ack = WouldChange(), .list = {Stored()}});
  EXPECT_THAT(Ctl(agent, {"delete", "--dry-run", "svc", "shop/web"}).out,
              HasSubstr("service/shop/web deleted (dry run)\n- element ip6"));
  Ctl(agent, {"delete", "--dry-run", "-f", "-"}, kTwoObjects);
  Ctl(agent, {"delete", "svc", "shop/web"});
  ASSERT_THAT(agent.seen().remove, SizeIs(3));
  EXPECT_TRUE(agent.seen().remove[0].validate_only());
  EXPECT_TRUE(agent.seen().remove[1].validate_only());
  EXPECT_FALSE(agent.seen().remove[2].validate_only());
}

TEST(CliDryRunTest, RejectedObjectsCountAsInTheRealCall) {
  v1::Ack ack;
  ack.set_revision(3);
  ack.set_outcome(v1::UNCHANGED);
  AddResult(ack, v1::REFUSED, "Service shop/web rejected: is bad");
  const CtlResult result =
      Ctl(FakeAgent({.ack = ack}), {"apply", "--dry-run", "-f", "-"}, kTwoObjects);
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out,
            "service/shop/web rejected (dry run)\n"
            "node/n1 applied (dry run)\n"
            "revision 3, no kernel changes needed\n");
  EXPECT_THAT(result.err, HasSubstr("Service shop/web rejected: is bad\n"));
}

TEST(CliDryRunTest, WhatIsNotListedAndRewritingAreNoted) {
  v1::Ack ack = WouldChange();
  ack.mutable_dry_run()->set_added(20'000);
  ack.mutable_dry_run()->set_rewrites_tables(true);
  const CtlResult result =
      Ctl(FakeAgent({.ack = ack}), {"apply", "--dry-run", "-f", "-"}, kTwoObjects);
  EXPECT_EQ(result.err,
            "note: showing 2 of 20001 elements\n"
            "note: the agent would rewrite its tables completely; only the differences are "
            "shown\n");
}

TEST(CliDryRunTest, AnAgentThatDoesNotKnowItIsFoundOut) {
  const CtlResult result =
      Ctl(FakeAgent({.ack = Committed(7)}), {"apply", "--dry-run", "-f", "-"}, kTwoObjects);
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("error: the agent does not support dry runs and has applied"));
  EXPECT_THAT(result.out, HasSubstr("service/shop/web applied\n"));
}

TEST(CliDryRunTest, PartsAreTriedByThemselves) {
  const FakeAgent agent({.ack = WouldChange()}, /*max_bytes=*/3000);
  const CtlResult result = Ctl(agent, {"apply", "--dry-run", "-f", "-"}, Nodes(10, 1000));
  EXPECT_THAT(result.err,
              HasSubstr("size limit and is split: each part is evaluated independently\n"));
}

TEST(CliApplyTest, OfTwoVersionsOfAnObjectTheLastIsSentAndTheOtherIsNamed) {
  const FakeAgent agent({.ack = Committed(1)});
  const CtlResult result =
      Ctl(agent, {"apply", "-f", "-"}, absl::StrCat(kTwoObjects, "---", kTwoObjects));
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err,
            "warning: (stdin): document 1, line 2: service/shop/web is ignored, because (stdin): "
            "document 3, line 11 contains the same object\n"
            "warning: (stdin): document 2, line 7: node/n1 is ignored, because (stdin): document "
            "4, line 16 contains the same object\n");
  ASSERT_THAT(agent.seen().apply, SizeIs(1));
  EXPECT_THAT(agent.seen().apply[0].objects(), SizeIs(2));
}

// An address moves to a renamed Service when the end of the snapshot removes the old Service.
TEST(CliPruneTest, ResolvedConflictsAreNotReported) {
  v1::Ack ack = Committed(9);
  v1::ObjectResult* conflict =
      AddResult(ack, v1::WARNING, "Service shop/web: spec.clusterIP: Duplicate value");
  conflict->set_code(v1::DUPLICATE);
  FakeAnswers answers = WithStoredObjects(ack);
  EXPECT_EQ(Ctl(FakeAgent(answers), {"apply", "--prune", "-f", "-"}, kTwoObjects).err, "");
  *answers.status.add_findings() = *conflict;
  EXPECT_THAT(Ctl(FakeAgent(answers), {"apply", "--prune", "-f", "-"}, kTwoObjects).err,
              HasSubstr("Duplicate value"));
}

TEST(CliPruneTest, HeldDeletionsAreAnError) {
  v1::Ack ack;
  ack.set_revision(9);
  ack.set_outcome(v1::HELD);
  ack.set_held("15 of 20 Services");
  FakeAnswers answers = WithStoredObjects(ack);
  CtlResult result = Ctl(FakeAgent(answers), {"apply", "--prune", "-f", "-"}, kTwoObjects);
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err,
            "error: the agent holds the deletions, because they would remove 15 of 20 Services; "
            "run \"svcmapctl accept-snapshot\" if they are intended\n");
  EXPECT_THAT(result.out, ::testing::StartsWith("service/shop/web applied\nnode/n1 applied\n"
                                                "service/shop/old not pruned\n"));
  EXPECT_THAT(result.out, HasSubstr("revision 9, deletions held\n"));

  answers.status.set_phase(v1::PHASE_HOLDING);
  result = Ctl(FakeAgent(answers), {"apply", "--prune", "-f", "-"}, kTwoObjects);
  EXPECT_EQ(result.code, 10);
  EXPECT_EQ(result.err,
            "error: nothing is programmed, and the rules of the agent's previous run stay in "
            "effect: the agent holds the deletions, because they would remove 15 of 20 "
            "Services; run \"svcmapctl accept-snapshot\" if they are intended\n");
  EXPECT_THAT(result.out, ::testing::StartsWith("service/shop/web stored, not programmed\n"
                                                "node/n1 stored, not programmed\n"
                                                "service/shop/old not pruned\n"));
  EXPECT_THAT(result.out, HasSubstr("revision 9, stored, not programmed\n"));
}

TEST(CliPruneTest, DryRunShowsWhatWouldGoAndSendsNothing) {
  FakeAnswers answers = WithStoredObjects(Committed(9));
  answers.dry_run = WouldChange();
  const FakeAgent agent(answers);
  const CtlResult result = Ctl(agent, {"apply", "--prune", "--dry-run", "-f", "-"}, kTwoObjects);
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("service/shop/web applied (dry run)\n"));
  EXPECT_THAT(result.out, HasSubstr("service/shop/old pruned (dry run)\n"
                                    "service/shop/older pruned (dry run)\n- element ip6"));
  EXPECT_THAT(agent.seen().push, IsEmpty());
  ASSERT_THAT(agent.seen().remove, SizeIs(1));
  EXPECT_TRUE(agent.seen().remove[0].validate_only());
  ASSERT_THAT(agent.seen().apply, SizeIs(1));
  EXPECT_TRUE(agent.seen().apply[0].validate_only());
}

TEST(CliPruneTest, DryRunPredictsThatTheDeletionsAreHeld) {
  FakeAnswers answers = WithStoredObjects(Committed(9));
  answers.dry_run->set_held("15 of 20 Services");
  const FakeAgent agent(answers);
  const CtlResult held = Ctl(agent, {"apply", "--prune", "--dry-run", "-f", "-"}, kTwoObjects);
  EXPECT_EQ(held.code, 1);
  EXPECT_EQ(held.err,
            "error: the agent would hold the deletions (svcmapd's flag --hold-removals), because "
            "they would remove 15 of 20 Services; use --allow-empty if they are intended\n");
  EXPECT_THAT(held.out, HasSubstr("service/shop/web applied (dry run)\n"));
  EXPECT_THAT(held.out, HasSubstr("service/shop/old not pruned (dry run)\n"));
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"apply", "--prune", "--allow-empty", "--dry-run", "-f", "-"},
        {"delete", "--dry-run", "svc", "shop/old"}}) {
    const CtlResult accepted = Ctl(agent, arguments, kTwoObjects);
    EXPECT_EQ(accepted.code, 0) << accepted.err;
    EXPECT_THAT(accepted.out,
                HasSubstr(arguments[0] == "delete" ? "service/shop/old deleted (dry run)\n"
                                                   : "service/shop/old pruned (dry run)\n"));
  }
}

TEST(CliPruneTest, ARejectedObjectPrunesNothing) {
  FakeAnswers answers = WithStoredObjects(Committed(9));
  AddResult(*answers.dry_run, v1::REFUSED, "Service shop/web rejected: spec.ports[0].port: ...");
  const FakeAgent agent(answers);
  const CtlResult result = Ctl(agent, {"apply", "--prune", "-f", "-"}, kTwoObjects);
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err,
            "error: (stdin): document 1, line 2: Service shop/web rejected: spec.ports[0].port: "
            "...\n"
            "error: --prune: nothing was applied or pruned, because the agent would not accept all "
            "objects\n");
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(agent.seen().push, IsEmpty());
  ASSERT_THAT(agent.seen().apply, SizeIs(1));
  EXPECT_TRUE(agent.seen().apply[0].validate_only());
}

TEST(CliPruneTest, HeldDeletionsFitTheTerminal) {
  v1::Ack ack;
  ack.set_outcome(v1::HELD);
  ack.set_held("30 of 40 Nodes");
  FakeAnswers answers = WithStoredObjects(ack);
  answers.list.clear();
  v1::ListResponse& part = answers.list.emplace_back();
  for (int i = 10; i < 40; ++i) {
    part.add_objects()->mutable_node()->mutable_metadata()->set_name(absl::StrCat("m", i));
  }
  const FakeAgent agent(answers);
  const std::vector<std::string> arguments = {"apply", "--prune", "-f", "-"};
  const CtlResult terminal = Ctl(agent, arguments, kTwoObjects, {.columns = 80, .rows = 24});
  EXPECT_THAT(terminal.out, HasSubstr("node/m19 not pruned\nand 20 more not pruned\n"));
  EXPECT_THAT(Ctl(agent, arguments, kTwoObjects).out, HasSubstr("node/m39 not pruned\n"));
}

TEST(CliPruneTest, AllowEmptyDeletesAllObjects) {
  const FakeAgent agent(WithStoredObjects(Committed(9)));
  const CtlResult result = Ctl(agent, {"apply", "--prune", "--allow-empty", "-f", "-"}, "");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::StartsWith("node/n1 pruned\nservice/shop/old pruned\n"));
  EXPECT_THAT(agent.seen().push, SizeIs(3));  // Open, SnapshotBegin, SnapshotEnd.
}

TEST(CliPruneTest, AConnectedControllerIsDisconnectedOnlyWithForce) {
  FakeAnswers answers = WithStoredObjects(Committed(9));
  answers.status.mutable_controller()->set_name("svcmap-kube");
  answers.status.mutable_controller()->set_instance("pod-7");
  const FakeAgent agent(answers);
  const CtlResult refused = Ctl(agent, {"apply", "--prune", "-f", "-"}, kTwoObjects);
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(refused.err,
            "error: --prune: controller svcmap-kube (pod-7) is connected; --prune disconnects it, "
            "and a controller may stop when it is disconnected; nothing was sent; use --force to "
            "disconnect it\n");
  EXPECT_THAT(agent.seen().push, IsEmpty());
  EXPECT_EQ(Ctl(agent, {"apply", "--prune", "--force", "-f", "-"}, kTwoObjects).code, 0);
  EXPECT_THAT(agent.seen().push, SizeIs(4));
}

TEST(CliDeleteTest, AConnectedControllerIsNamed) {
  FakeAnswers answers = WithStoredObjects(Committed(9));
  answers.status.mutable_controller()->set_name("svcmap-kube");
  const CtlResult result = Ctl(FakeAgent(answers), {"delete", "svc", "shop/old"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err,
            "note: controller svcmap-kube is connected and can send the deleted objects again\n");
}

TEST(CliPruneTest, FlagsOfPruneRequireIt) {
  for (const char* flag : {"--force", "--allow-empty"}) {
    const CtlResult result = Ctl({"apply", flag, "-f", "-"}, kTwoObjects);
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr(absl::StrCat("apply: ", flag, " requires --prune")));
  }
}

}  // namespace
}  // namespace svcmap::api
