#include "api/cli/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "api/cli/completion.h"
#include "api/cli/describe.h"
#include "api/connect/target.h"
#include "tests/support/file.h"
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

struct TargetCase {
  std::string_view address;
  std::string_view target;   // Expected address of the agent. Empty if an error is expected.
  std::string_view problem;  // Part of the expected error message.
};

TEST(TargetTest, Table) {
  const std::string long_path = "unix:///" + std::string(108, 'x');
  const TargetCase cases[] = {
      {"unix:///run/svcmap/svcmap.sock", "unix:/run/svcmap/svcmap.sock", ""},
      {"unix://svcmap.sock", "", "the path must be absolute"},
      {long_path, "", "the path has 109 bytes, the maximum is 107"},
      {"tcp://127.0.0.1:7070", "dns:///127.0.0.1:7070", ""},
      {"tcp://node-1.example:7070", "dns:///node-1.example:7070", ""},
      {"tcp://[fd00::1]:7070", "dns:///[fd00::1]:7070", ""},
      {"tcp://fd00::1:7070", "", "with IPv6 addresses in brackets"},
      {"tcp://node-1", "", "must be tcp://HOST:PORT"},
      {"tcp://:7070", "", "must be tcp://HOST:PORT"},
      {"tcp://h/x:7070", "", "must be tcp://HOST:PORT"},
      {"tcp://h:0", "", "port \"0\" must be between 1 and 65535, inclusive"},
      {"tcp://h:65536", "", "port \"65536\""},
      {"tcp://h:+80", "", "port \"+80\""},
      {"tcp://h:", "", "port \"\""},
      {"/run/svcmap.sock", "", "must be unix:///PATH or tcp://HOST:PORT"},
      {"", "", "must be unix:///PATH"},
  };
  for (const TargetCase& c : cases) {
    const auto target = ParseTarget(c.address);
    if (c.problem.empty()) {
      ASSERT_TRUE(target.ok()) << c.address << ": " << target.status();
      EXPECT_EQ(*target, c.target);
    } else {
      EXPECT_THAT(std::string(target.status().message()), HasSubstr(std::string(c.problem)));
    }
  }
}

absl::StatusOr<Options> Parse(const std::vector<std::string>& args) {
  return ParseCommandLine(args, "");
}

Options MustParse(const std::vector<std::string>& args) {
  absl::StatusOr<Options> options = Parse(args);
  EXPECT_TRUE(options.ok()) << options.status();
  return options.ok() ? *std::move(options) : Options();
}

TEST(CommandLineTest, TlsFilesGoTogetherAndWithTcpOnly) {
  const auto problem = [](std::vector<std::string> args, const std::string& address) {
    args.insert(args.end(), {"--address", address, "status"});
    return std::string(Parse(args).status().message());
  };
  const std::string tcp = "tcp://h:1";
  EXPECT_EQ(problem({"--tls-ca", "a"}, tcp), "");
  EXPECT_EQ(problem({"--tls-ca", "a", "--tls-cert", "c", "--tls-key", "k"}, tcp), "");
  EXPECT_EQ(problem({"--tls-ca", "a", "--tls-cert", "c"}, tcp), "--tls-cert requires --tls-key");
  EXPECT_EQ(problem({"--tls-ca", "a", "--tls-key", "k"}, tcp), "--tls-key requires --tls-cert");
  EXPECT_EQ(problem({"--tls-cert", "c", "--tls-key", "k"}, tcp),
            "--tls-cert and --tls-key require --tls-ca");
  EXPECT_EQ(
      problem({"--tls-ca", "a"}, "unix:///s"),
      "--tls-ca, --tls-cert, --tls-key and --tls-server-name require a tcp:// address, but the "
      "address is \"unix:///s\"");
  EXPECT_EQ(problem({"--tls-ca", "a", "--tls-server-name", "n"}, tcp), "");
  EXPECT_EQ(problem({"--tls-server-name", "n"}, tcp), "--tls-server-name requires --tls-ca");
}

std::string Problem(const std::vector<std::string>& args) {
  return std::string(Parse(args).status().message());
}

std::string Help(const std::vector<std::string>& args) { return MustParse(args).help; }

TEST(CommandLineTest, AddressComesFromOptionThenEnvironmentThenDefault) {
  const auto address = [](const std::vector<std::string>& args, const std::string& env) {
    return ParseCommandLine(args, env)->address;
  };
  EXPECT_EQ(address({"status"}, ""), "unix:///run/svcmap/svcmap.sock");
  EXPECT_EQ(address({"status"}, "tcp://h:1"), "tcp://h:1");
  EXPECT_EQ(address({"status", "--address", "tcp://h:2"}, "tcp://h:1"), "tcp://h:2");
  EXPECT_THAT(std::string(ParseCommandLine({"status"}, "x").status().message()),
              HasSubstr("SVCMAP_ADDRESS: Invalid value: \"x\": must be unix"));
  EXPECT_THAT(Problem({"--address", "x", "status"}),
              HasSubstr("--address: Invalid value: \"x\": must be unix"));
}

TEST(CommandLineTest, GlobalOptionsMayStandBeforeAndAfterTheCommand) {
  for (const auto& args : {std::vector<std::string>{"--timeout", "3s", "status"},
                           std::vector<std::string>{"status", "--timeout=3s"}}) {
    EXPECT_EQ(MustParse(args).timeout, std::chrono::seconds(3));
  }
}

TEST(CommandLineTest, WaitHasATimeoutOfItsOwn) {
  const Options options =
      MustParse({"--timeout", "3s", "wait", "--timeout", "5s", "--for", "revision=12"});
  EXPECT_EQ(options.timeout, std::chrono::seconds(3));
  EXPECT_EQ(options.wait.timeout, std::chrono::seconds(5));
  EXPECT_EQ(options.wait.what, WaitOptions::For::kRevision);
  EXPECT_EQ(options.wait.revision, 12u);
  EXPECT_EQ(MustParse({"wait"}).wait.what, WaitOptions::For::kServing);
}

TEST(CommandLineTest, FilesAreRepeatable) {
  const ApplyOptions apply = MustParse({"apply", "-f", "a.yaml", "-f", "-", "--strict"}).apply;
  EXPECT_THAT(apply.files, ElementsAre("a.yaml", "-"));
  EXPECT_TRUE(apply.strict);
  EXPECT_THAT(MustParse({"apply", "-f", "[x].yaml"}).apply.files, ElementsAre("[x].yaml"));
}

TEST(CommandLineTest, DeleteNamesObjectsInTwoWays) {
  const ObjectId web{v1::KIND_SERVICE, "shop", "web"}, api{v1::KIND_SERVICE, "shop", "api"};
  EXPECT_THAT(MustParse({"delete", "svc", "shop/web", "shop/api"}).remove.objects,
              ElementsAre(web, api));
  EXPECT_THAT(MustParse({"delete", "Services", "-n", "shop", "web", "api"}).remove.objects,
              ElementsAre(web, api));
  EXPECT_THAT(MustParse({"delete", "svc", "web"}).remove.objects,
              ElementsAre(ObjectId{v1::KIND_SERVICE, "default", "web"}));
  EXPECT_THAT(MustParse({"delete", "service/shop/web", "svc/shop/api"}).remove.objects,
              ElementsAre(web, api));
  EXPECT_THAT(
      MustParse({"delete", "svc/web", "no/n1"}).remove.objects,
      ElementsAre(ObjectId{v1::KIND_SERVICE, "default", "web"}, ObjectId{v1::KIND_NODE, "", "n1"}));
  EXPECT_THAT(MustParse({"delete", "no", "n1"}).remove.objects,
              ElementsAre(ObjectId{v1::KIND_NODE, "", "n1"}));
}

TEST(CommandLineTest, GetFiltersByNamespaceAndName) {
  const auto filter = [](std::vector<std::string> args) {
    args.insert(args.begin(), "get");
    return MustParse(args).get.filters.at(0);
  };
  EXPECT_EQ(filter({"svc"}), (ObjectId{v1::KIND_SERVICE, "", ""}));
  EXPECT_EQ(filter({"eps", "-n", "shop"}), (ObjectId{v1::KIND_ENDPOINT_SLICE, "shop", ""}));
  EXPECT_EQ(filter({"svc", "shop/web"}), (ObjectId{v1::KIND_SERVICE, "shop", "web"}));
  EXPECT_EQ(filter({"svc", "web", "-n", "shop"}), (ObjectId{v1::KIND_SERVICE, "shop", "web"}));
  EXPECT_EQ(filter({"svc", "web"}), (ObjectId{v1::KIND_SERVICE, "default", "web"}));
  EXPECT_EQ(filter({"service/shop/web"}), (ObjectId{v1::KIND_SERVICE, "shop", "web"}));
  EXPECT_EQ(filter({"svc/web", "-n", "shop"}), (ObjectId{v1::KIND_SERVICE, "shop", "web"}));
  EXPECT_EQ(filter({"svc/web"}), (ObjectId{v1::KIND_SERVICE, "default", "web"}));
  EXPECT_EQ(filter({"svc/web", "-A"}), (ObjectId{v1::KIND_SERVICE, "", "web"}));
  EXPECT_EQ(filter({"svc", "web", "-A"}), (ObjectId{v1::KIND_SERVICE, "", "web"}));
  EXPECT_EQ(filter({"svc", "-A"}), (ObjectId{v1::KIND_SERVICE, "", ""}));
  EXPECT_THAT(MustParse({"get", "svc,EPS", "web"}).get.filters,
              ElementsAre(ObjectId{v1::KIND_SERVICE, "default", "web"},
                          ObjectId{v1::KIND_ENDPOINT_SLICE, "default", "web"}));
  // "no" is the short name of the kind Node. "status" is the name of a Node in this test, not a
  // command.
  EXPECT_EQ(filter({"no", "status"}), (ObjectId{v1::KIND_NODE, "", "status"}));
  EXPECT_EQ(filter({"cidr"}).kind, v1::KIND_SERVICE_CIDR);
}

TEST(CommandLineTest, ExplainReadsWhereToAndWhereFrom) {
  const auto request = [](std::vector<std::string> args) {
    args.insert(args.begin(), "explain");
    return MustParse(args).explain.request.ShortDebugString();
  };
  EXPECT_EQ(request({"10.96.0.10:80"}), "address: \"10.96.0.10\" port: 80 protocol: \"TCP\"");
  EXPECT_EQ(request({"10.96.0.010:53/udp", "--from", "node"}),
            "address: \"10.96.0.10\" port: 53 protocol: \"UDP\" from: \"node\"");
  EXPECT_EQ(request({"[fd00:0::1]:65535/SCTP", "--from", "fd00::2", "--in-interface", "cni0"}),
            "address: \"fd00::1\" port: 65535 protocol: \"SCTP\" from: \"fd00::2\" "
            "in_interface: \"cni0\"");
  EXPECT_EQ(MustParse({"explain", "10.0.0.1:80", "-o", "json"}).explain.output,
            OutputFormat::kJson);
}

// Returns the arguments of a fleet command with the required options.
std::vector<std::string> InFleet(std::vector<std::string> args) {
  args.insert(args.begin(), {"fleet", "--etcd-endpoints", "http://a:1", "--prefix", "/p"});
  return args;
}

TEST(CommandLineTest, WrongOnesAreNamed) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{},
       "no command specified; commands: apply, delete, accept-snapshot, get, status, dump, "
       "explain, wait, watch"},
      {{"frobnicate"}, "unknown command \"frobnicate\"; commands: apply"},
      {{"--timeout"}, "--timeout"},
      {{"status", "--bogus"}, "status: The following argument was not expected: --bogus"},
      {{"status", "x"}, "status: The following argument was not expected: x"},
      {{"apply"}, "apply: --filename is required"},
      {{"apply", "-f", "a", "b"}, "apply: The following argument was not expected: b"},
      {{"delete"}, "delete: KIND and NAME, or --filename, are required"},
      {{"delete", "svc"}, "delete: KIND and NAME, or --filename, are required"},
      {{"delete", "pods", "shop/web"},
       "kind: Unsupported value: \"pods\": supported values: services (svc), "},
      {{"get", "svc,pods"},
       "kind: Unsupported value: \"pods\": supported values: services (svc), "},
      {{"get", "svc", "-A", "-n", "x"}, "--all-namespaces and --namespace cannot be used together"},
      {{"delete", "svc/shop/web", "api"}, "kind: Unsupported value: \"api\""},
      {{"delete", "svc/shop/web", "svc"}, "delete: NAME is missing in \"svc\""},
      {{"get", "svc/", "-A"}, "name: Invalid value: \"\": must be NAMESPACE/NAME"},
      {{"get", "svc/web", "api"}, "KIND/NAME \"svc/web\" cannot be combined with NAME \"api\""},
      {{"delete", "svc", "shop/"}, "name: Invalid value: \"shop/\": must be NAMESPACE/NAME"},
      {{"delete", "svc", "/web"}, "name: Invalid value: \"/web\": must be NAMESPACE/NAME"},
      {{"delete", "svc", "a/b/c"}, "name: Invalid value: \"a/b/c\": must be NAMESPACE/NAME"},
      {{"delete", "svc", "shop/web", "-n", "x"},
       "name: Invalid value: \"shop/web\": does not match --namespace \"x\""},
      {{"delete", "svc", "shop/web", "-f", "a"},
       "--filename cannot be combined with KIND, NAME or --namespace"},
      {{"get"}, "get: KIND is required"},
      {{"get", "svc", "-o", "xml"},
       "--output: Unsupported value: \"xml\": supported values: \"table\", \"wide\", \"json\", "
       "\"yaml\", "
       "\"name\""},
      {{"get", "no", "a/b"}, "name: Invalid value: \"a/b\": nodes are not namespaced"},
      {{"get", "no", "-n", "x"}, "--namespace: Forbidden: nodes are not namespaced"},
      {{"status", "-o", "name"},
       "--output: Unsupported value: \"name\": supported values: \"text\", \"json\", \"yaml\""},
      {{"dump"}, "dump: WHAT is required"},
      {{"dump", "all"},
       "dump: WHAT: Unsupported value: \"all\": supported values: \"desired\", \"applied\", "
       "\"plan\""},
      {{"explain"}, "explain: TO is required"},
      {{"explain", "10.0.0.1"}, "explain: TO: Invalid value: \"10.0.0.1\": must be ADDRESS:PORT"},
      {{"explain", "10.0.0.1/UDP"},
       "explain: TO: Invalid value: \"10.0.0.1/UDP\": must be ADDRESS:PORT"},
      {{"explain", "fd00::1/UDP"},
       "explain: TO: Invalid value: \"fd00::1/UDP\": must be ADDRESS:PORT"},
      {{"explain", "web:80"}, "explain: TO: Invalid value: \"web:80\": must be ADDRESS:PORT"},
      {{"explain", "fd00::1:80"}, "with IPv6 addresses in brackets"},
      {{"explain", "[10.0.0.1]:80"}, "must be ADDRESS:PORT"},
      {{"explain", "10.0.0.1:0"}, "port \"0\" must be between 1 and 65535, inclusive"},
      {{"explain", "10.0.0.1:65536/UDP"}, "port \"65536\" must be between 1 and 65535, inclusive"},
      {{"explain", "10.0.0.1:http"}, "port \"http\" must be"},
      {{"explain", "10.0.0.1:80/"}, "protocol \"\" must be TCP, UDP or SCTP"},
      {{"explain", "10.0.0.1:80/icmp"}, "protocol \"ICMP\" must be TCP"},
      {{"explain", "10.0.0.1:80", "--from", "pod"},
       "--from: Invalid value: \"pod\": must be an IP address or \"node\""},
      {{"explain", "10.0.0.1:80", "--from", "fd00::1"},
       "--from: Invalid value: \"fd00::1\": must have the same IP family as 10.0.0.1"},
      {{"explain", "10.0.0.1:80", "-o", "name"},
       "--output: Unsupported value: \"name\": supported values: \"text\", \"json\", \"yaml\""},
      {{"wait", "--for", "x"},
       "--for: Unsupported value: \"x\": supported values: \"serving\", \"controller\", "
       "\"revision=NUMBER\""},
      {{"wait", "--for", "revision=-1"}, "--for: Unsupported value: \"revision=-1\""},
      {{"watch", "-o", "yaml"},
       "--output: Unsupported value: \"yaml\": supported values: \"text\", \"json\""},
      {{"migrate", "chekc"}, "migrate: unknown command \"chekc\"; commands: check"},
      {{"migrate", "check", "-o", "yaml"},
       "--output: Unsupported value: \"yaml\": supported values: \"text\", \"json\""},
      {{"fleet", "dump"},
       "fleet: unknown command \"dump\"; commands: status, nodes, wait, explain, serve, apply"},
      {{"fleet"}, "fleet: no command specified; commands: status"},
      {{"fleet", "status"}, "fleet status: --etcd-endpoints is required"},
      {InFleet({"status"}), "fleet: --status-prefix is required"},
      {InFleet({"status", "--status-prefix", "/p/state"}),
       "--status-prefix: Invalid value: \"/p/state\": must not contain the keys of --prefix"},
      {InFleet({"nodes", "--status-prefix", "/s", "--prune"}),
       "fleet nodes: The following argument was not expected: --prune"},
      {InFleet({"apply"}), "fleet apply: --filename is required"},
      {InFleet({"apply", "-f", "x", "--silent"}),
       "fleet apply: The following argument was not expected: --silent"},
      {InFleet({"apply", "-f", "x", "--allow-empty"}),
       "fleet apply: --allow-empty requires --prune"},
      {{"fleet", "apply", "--etcd-endpoints", "http://a:1", "--prefix", "p", "-f", "x"},
       "--prefix: Invalid value: \"p\""},
      {InFleet({"wait", "--status-prefix", "/s"}), "fleet wait: --seq is required"},
      {InFleet({"wait", "--status-prefix", "/s", "--seq", "1", "--window", "2h"}),
       "--window: Invalid value: \"2h\": must be at most 1h"},
      {InFleet({"wait", "--status-prefix", "/s", "--seq", "1", "--window", "61m"}),
       "--window: Invalid value: \"61m\": must be at most 1h"},
      {InFleet({"--timeout", "2m", "wait", "--status-prefix", "/s", "--seq", "1"}),
       "fleet wait: --timeout must follow \"wait\""},
      {InFleet({"explain", "--status-prefix", "/s", "n1"}), "fleet explain: TO is required"},
      {InFleet({"explain", "--status-prefix", "/s", "n1", "10.0.0.1"}),
       "explain: TO: Invalid value: \"10.0.0.1\": must be ADDRESS:PORT"},
      {InFleet({"serve", "--status-prefix", "/s", "--listen", "127.0.0.1"}),
       "--listen: Invalid value: \"127.0.0.1\": must contain a port"},
      {{"fleet", "status", "--etcd-endpoints", "a:1", "--prefix", "/p", "--status-prefix", "/s"},
       "--etcd-endpoints: Invalid value: \"a:1\": must be http://HOST:PORT"},
      {{"wait", "--timeout", "5"}, "--timeout: Invalid value: \"5\": must be a duration"},
      {{"status", "--timeout", "0s"}, "--timeout: Invalid value: \"0s\": must be a duration"},
  };
  for (const auto& [args, problem] : cases) {
    EXPECT_THAT(Problem(args), HasSubstr(problem)) << ::testing::PrintToString(args);
  }
}

TEST(CommandLineTest, HelpHasExamplesAndExitCodes) {
  EXPECT_THAT(Help({"--help"}), HasSubstr("Exit codes:\n  0  success\n"));
  EXPECT_THAT(Help({"--help"}), HasSubstr("svcmapctl apply -f"));
  for (const char* command :
       {"apply", "delete", "get", "status", "dump", "explain", "wait", "watch", "fleet"}) {
    EXPECT_THAT(Help({command, "--help"}), HasSubstr("Examples:\n")) << command;
  }
  EXPECT_TRUE(Help({"--version"}).starts_with("svcmapctl "));
  EXPECT_EQ(Help({"help"}), Help({"--help"}));
  EXPECT_EQ(Help({"help", "explain"}), Help({"explain", "--help"}));
  EXPECT_EQ(Help({"help", "migrate", "check"}), Help({"migrate", "check", "--help"}));
  EXPECT_THAT(Help({"migrate", "check", "--help"}), HasSubstr("svcmapctl migrate check [OPTIONS]"));
  EXPECT_EQ(Help({"dump", "applied", "--help"}), Help({"dump", "--help"}));
  EXPECT_THAT(Help({"migrate", "--help"}), Not(HasSubstr("Examples:")));
  for (const auto& [args, problem] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"frobnicate", "--help"}, "unknown command \"frobnicate\"; commands: apply"},
           {{"fleet", "bogus", "--help"}, "fleet: unknown command \"bogus\"; commands: status"},
           {{"version", "x", "--help"}, "version: The following argument was not expected: x"},
           {{"help", "frobnicate"}, "help: unknown command \"frobnicate\""},
           {{"help", "fleet", "bogus"}, "help: unknown command \"bogus\""},
           {{"help", "fleet", "wait", "extra"}, "help: unknown command \"extra\""},
           {{"help", "completion", "bash"}, "help: unknown command \"bash\""}}) {
    EXPECT_THAT(Problem(args), HasSubstr(problem)) << ::testing::PrintToString(args);
  }
}

TEST(CommandLineTest, LinesBelowTheOptionsHaveAtMost100Columns) {
  for (const char* command : {"support-bundle", "fleet", "fleet wait", "fleet explain"}) {
    std::vector<std::string> args = absl::StrSplit(command, ' ');
    args.push_back("--help");
    for (const absl::string_view line : absl::StrSplit(Help(args), '\n')) {
      if (!absl::StartsWith(line, "  ")) EXPECT_LE(line.size(), 100u) << line;
    }
  }
}

// Each exit code in the help text ("  3  cannot reach ...", "  10 the agent ...") must have a row
// in docs/svcmapctl.md.
TEST(CommandLineTest, TheManualListsTheSameExitCodes) {
  const std::string manual = svcmap::testing::ReadFile(SVCMAP_SOURCE_DIR "/docs/svcmapctl.md");
  const std::string help = Help({"--help"});
  std::istringstream codes(help.substr(help.find("Exit codes:\n")));
  int count = 0;
  for (std::string line; std::getline(codes, line);) {
    if (line.size() < 6 || line[0] != ' ') continue;
    const std::string code = line.substr(2, line.find(' ', 2) - 2);
    EXPECT_THAT(manual, HasSubstr("| " + code + " | " + line.substr(5) + " |"));
    ++count;
  }
  EXPECT_EQ(count, 11);
}

// Tests of shell completion. Runs the bash script in bash, with a svcmapctl in the test process's
// directory.

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
