// Tests of shell completion. Runs the bash script in bash, with a svcmapctl in the test process's
// directory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "api/cli/completion.h"
#include "api/cli/describe.h"
#include "tests/unit/api/cli_fake_agent.h"

namespace svcmap::api {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAreArray;
using Source = Completion::Source;

std::vector<std::string> Candidates(const std::vector<std::string>& words) {
  std::vector<std::string> result;
  for (const Completion::Candidate& candidate : CompleteWords(words).candidates) {
    result.push_back(candidate.word);
  }
  return result;
}

TEST(CompletionTest, EveryCommandAndOptionIsACandidate) {
  Options values;
  CLI::App app;
  Describe(app, values);
  const auto names = [](const CLI::App& command) {
    std::set<std::string> result;
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& name : option->get_lnames()) result.insert("--" + name);
    }
    return result;
  };
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    commands.push_back(command->get_name());
    std::set<std::string> expected = names(*command);
    expected.merge(names(app));
    const std::vector<std::string> given = Candidates({command->get_name(), "--"});
    EXPECT_THAT(given, UnorderedElementsAreArray(expected)) << command->get_name();
  }
  EXPECT_THAT(commands, Contains("support-bundle"));
  EXPECT_EQ(Candidates({""}), commands);
  EXPECT_EQ(Candidates({"help", ""}), commands);
  EXPECT_THAT(Candidates({"help", "get", ""}), IsEmpty());
  EXPECT_THAT(Candidates({"--"}), Contains("--bundle"));
}

TEST(CompletionTest, ValuesComeFromTheDescription) {
  EXPECT_THAT(Candidates({"get", "-o", ""}), ElementsAre("table", "wide", "json", "yaml", "name"));
  EXPECT_THAT(Candidates({"watch", "--output", ""}), ElementsAre("text", "json"));
  EXPECT_THAT(Candidates({"watch", "--output="}), ElementsAre("--output=text", "--output=json"));
  EXPECT_THAT(Candidates({"wait", "--for", ""}), ElementsAre("serving", "controller", "revision="));
  EXPECT_THAT(Candidates({"dump", ""}), ElementsAre("desired", "applied", "plan"));
  EXPECT_THAT(Candidates({"migrate", ""}), ElementsAre("check"));
  EXPECT_THAT(Candidates({"fleet", ""}),
              ElementsAre("status", "nodes", "wait", "explain", "serve", "apply"));
  EXPECT_THAT(Candidates({"fleet", "wait", "--"}), Contains("--percent"));
  EXPECT_THAT(Candidates({"fleet", "wait", "--"}), Contains("--timeout").Times(1));
  EXPECT_THAT(Candidates({"fleet", "--prefix", "/p", "wait", "--"}), Contains("--etcd-endpoints"));
  EXPECT_THAT(Candidates({"fleet", "wait", "--"}), Not(Contains("--prune")));
  EXPECT_THAT(Candidates({"completion", ""}), ElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(Candidates({"top", "--sort", ""}), ElementsAre("rate", "total", "name"));
  EXPECT_THAT(Candidates({"top", "--by", ""}), ElementsAre("service", "port", "destination"));
  EXPECT_THAT(Candidates({"get", ""}),
              ElementsAre("services", "endpointslices", "nodes", "servicecidrs"));
}

TEST(CompletionTest, SourcesDependOnTheArgument) {
  const auto source = [](const std::vector<std::string>& words) {
    return CompleteWords(words).source;
  };
  EXPECT_EQ(source({"apply", "-f", ""}), Source::kFiles);
  EXPECT_EQ(source({"--bundle", ""}), Source::kFiles);
  EXPECT_EQ(source({"get", "-n", ""}), Source::kNamespaces);
  EXPECT_EQ(source({"explain", ""}), Source::kAddresses);
  EXPECT_EQ(source({"explain", "10.0.0.1:80", ""}), Source::kNone);
  EXPECT_EQ(source({"check", "--netns", ""}), Source::kNetns);
  EXPECT_EQ(source({"get", "svc", ""}), Source::kObjects);
  EXPECT_EQ(source({"get", "svc", "shop/web", ""}), Source::kNone);
  EXPECT_EQ(source({"delete", "svc", "shop/web", ""}), Source::kObjects);
  EXPECT_EQ(source({"status", ""}), Source::kNone);
  const Completion names = CompleteWords({"--timeout", "5s", "get", "-n", "shop", "svc", "w"});
  EXPECT_EQ(names.kind, "svc");
  EXPECT_EQ(names.name_space, "shop");
  const Completion services = CompleteWords({"top", "--endpoints", ""});
  EXPECT_EQ(services.source, Source::kObjects);
  EXPECT_EQ(services.kind, "services");
  EXPECT_THAT(Candidates({"no-such-command", ""}), IsEmpty());
}

TEST(CompletionOfNamesTest, MissingAgentIsNotAnError) {
  const CtlResult result =
      Ctl({"__complete", "--address", "unix:///nonexistent.sock", "get", "svc", ""});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "");
}

TEST(CompletionScriptTest, ScriptsArePrintedForEachShell) {
  EXPECT_THAT(Ctl({"completion", "bash"}).out, HasSubstr("complete -F _svcmapctl svcmapctl"));
  EXPECT_THAT(Ctl({"completion", "zsh"}).out, HasSubstr("#compdef svcmapctl"));
  EXPECT_THAT(Ctl({"completion", "fish"}).out, HasSubstr("complete -c svcmapctl"));
  EXPECT_EQ(Ctl({"completion", "csh"}).code, 2);
}

}  // namespace
}  // namespace svcmap::api
