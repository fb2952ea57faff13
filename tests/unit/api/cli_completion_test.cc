// Tests of shell completion. Runs the bash script in bash, with a svcmapctl in the test process's
// directory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <set>

#include "absl/strings/str_split.h"
#include "api/cli/completion.h"
#include "api/cli/describe.h"
#include "tests/unit/api/cli_fake_agent.h"

namespace svcmap::api {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Source = Completion::Source;

std::vector<std::string> Candidates(const std::vector<std::string>& words) {
  std::vector<std::string> result;
  for (const Completion::Candidate& candidate : CompleteWords(words).candidates) {
    result.push_back(candidate.word);
  }
  return result;
}

TEST(CompletionTest, EveryCommandAndOptionIsACandidate) {
  Words values;
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
    EXPECT_EQ(std::set<std::string>(given.begin(), given.end()), expected) << command->get_name();
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

class CompletionOfNamesTest : public ::testing::Test {
 protected:
  static FakeAnswers AnswersWithNames() {
    FakeAnswers answers;
    for (const char* name : {"web", "api"}) {
      v1::Service& service = *answers.list.emplace_back().add_objects()->mutable_service();
      service.mutable_metadata()->set_namespace_("shop");
      service.mutable_metadata()->set_name(name);
      service.mutable_spec()->add_cluster_ips(*name == 'w' ? "10.96.0.10" : "fd00::10");
      service.mutable_spec()->add_ports()->set_port(80);
    }
    v1::ObjectMeta& slice =
        *answers.list.emplace_back().add_objects()->mutable_endpoint_slice()->mutable_metadata();
    slice.set_namespace_("shop");
    slice.set_name("web-1");
    return answers;
  }
  std::vector<std::string> Complete(std::vector<std::string> words) {
    words.insert(words.begin(), {"__complete", "--address", agent_.address()});
    std::vector<std::string> lines;
    for (const auto line : absl::StrSplit(Ctl(words).out, '\n', absl::SkipEmpty())) {
      lines.emplace_back(line.substr(0, line.find('\t')));
    }
    return lines;
  }
  const FakeAgent agent_{AnswersWithNames()};
};

TEST_F(CompletionOfNamesTest, NamesComeFromTheAgent) {
  EXPECT_THAT(Complete({"get", "svc", ""}), ElementsAre("shop/api", "shop/web"));
  EXPECT_THAT(Complete({"get", "svc", "shop/w"}), ElementsAre("shop/web"));
  EXPECT_THAT(Complete({"get", "eps", ""}), ElementsAre("shop/web-1"));
  EXPECT_THAT(Complete({"get", "svc,eps", ""}), ElementsAre("shop/api", "shop/web", "shop/web-1"));
  EXPECT_THAT(Complete({"top", "--endpoints", "shop/w"}), ElementsAre("shop/web"));
  EXPECT_THAT(Complete({"top", "--endpoints=shop/w"}), ElementsAre("--endpoints=shop/web"));
  EXPECT_THAT(Complete({"delete", "-n", "shop", "svc", ""}), ElementsAre("api", "web"));
  EXPECT_THAT(Complete({"get", "-n", ""}), ElementsAre("shop"));
  EXPECT_THAT(Complete({"get", "--namespace=s"}), ElementsAre("--namespace=shop"));
  EXPECT_THAT(Complete({"explain", ""}), ElementsAre("10.96.0.10:80/TCP", "[fd00::10]:80/TCP"));
  EXPECT_THAT(Complete({"st"}), ElementsAre("status"));
  EXPECT_THAT(Complete({"apply", "-f", ""}), ElementsAre(":file"));
}

TEST_F(CompletionOfNamesTest, MissingAgentIsNotAnError) {
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
