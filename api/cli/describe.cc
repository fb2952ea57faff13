#include "api/cli/describe.h"

#include <climits>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "api/cli/commands.h"
#include "api/cli/completion.h"
#include "api/cli/help_text.h"
#include "api/cli/object_id.h"
#include "api/cli/text.h"
#include "api/connect/target.h"
#include "api/convert/quote.h"
#include "api/fleet/node_status.h"
#include "api/version/version.h"
#include "nft/types/ip_address.h"

namespace svcmap::api {
namespace {

using std::chrono::milliseconds;

constexpr char kAllowEmpty[] =
    "With --prune: accept manifests without objects, and any number of deletions";

// The values of an option by name.
template <typename T>
using Choices = std::vector<std::pair<const char*, T>>;

const Choices<OutputFormat> kTextOrJson = {{"text", OutputFormat::kTable},
                                           {"json", OutputFormat::kJson}};
const Choices<OutputFormat> kTextJsonOrYaml = {
    {"text", OutputFormat::kTable}, {"json", OutputFormat::kJson}, {"yaml", OutputFormat::kYaml}};

void ThrowIfBad(const absl::Status& status, const std::string& before = "") {
  if (!status.ok()) throw UsageError(before + std::string(status.message()));
}

template <typename T>
T ValueOf(absl::StatusOr<T> value, const std::string& before = "") {
  ThrowIfBad(value.status(), before);
  return *std::move(value);
}

// Defines the options of a command or of the program.
class Definition {
 public:
  explicit Definition(CLI::App& app) : app_(app) {}

  CLI::App& app() const { return app_; }

  CLI::Option* Add(const char* names, auto& value, const char* type, const std::string& text) {
    return app_.add_option(names, value, text)->type_name(type);
  }
  CLI::Option* AddPositional(const char* name, auto& value, const std::string& text) {
    return Add(name, value, "", text);
  }
  void AddFile(const char* name, std::string& value, const std::string& text) {
    Add(name, value, "FILE", text);
  }
  void AddNumber(const char* name, auto& value, int low, int high, const std::string& text) {
    Add(name, value, "NUMBER", text)->check(CLI::Range(low, high).description(""));
  }
  void AddFlag(const char* names, bool& value, const std::string& text) {
    app_.add_flag(names, value, text);
  }
  void AddDuration(const char* name, milliseconds& value, const std::string& text,
                   milliseconds longest = milliseconds::max()) {
    const auto parse = [&value, name, longest](const std::string& word) {
      value = ValueOf(ParseDuration(word), absl::StrCat(name, ": "));
      if (value <= longest) return;
      throw UsageError(absl::StrCat(name, ": Invalid value: ", Quote(word), ": must be at most ",
                                    DurationText(longest)));
    };
    app_.add_option_function<std::string>(
            name, parse, absl::StrCat(text, " [default: ", DurationText(value), "]"))
        ->type_name("DURATION");
  }

  // Adds an option with one of `choices`. Appends the names of the choices to `text`, and the
  // default unless the argument is positional.
  template <typename T>
  CLI::Option* AddChoice(const std::string& names, T& value, const char* type, std::string text,
                         const Choices<T>& choices) {
    const bool positional = !names.starts_with('-');
    std::string suffix, quoted;
    for (size_t i = 0; i < choices.size(); ++i) {
      const char* choice = choices[i].first;
      absl::StrAppend(&text, i == 0 ? "" : i + 1 < choices.size() ? ", " : " or ", choice);
      absl::StrAppend(&quoted, i == 0 ? "" : ", ", Quote(choice));
      const bool by_default = !positional && choices[i].second == value;
      if (by_default) suffix = absl::StrCat(" [default: ", choice, "]");
    }
    const std::string shown = positional ? absl::StrCat(app_.get_name(), ": ", names)
                                         : names.substr(names.rfind(',') + 1);
    const auto choose = [&value, choices, quoted, shown](const std::string& word) {
      for (const auto& [name, choice] : choices) {
        if (name == word) return void(value = choice);
      }
      throw UsageError(absl::StrCat(shown, ": Unsupported value: ", Quote(word),
                                    ": supported values: ", quoted));
    };
    return app_.add_option_function<std::string>(names, choose, text + suffix)->type_name(type);
  }

  void AddOutput(OutputFormat& value, const Choices<OutputFormat>& choices) {
    AddChoice("-o,--output", value, "FORMAT", "Output format: ", choices);
  }
  CLI::Option* AddFiles(std::vector<std::string>& files) {
    return Add("-f,--filename", files, "FILE",
               "Manifest, directory of manifests, or - for standard input (repeatable)")
        ->allow_extra_args(false);
  }
  void AddDryRun(bool& value) {
    AddFlag("--dry-run", value, "Show the changes without making them");
  }
  void AddNamespace(std::string& value, const char* text) {
    Add("-n,--namespace", value, "NAMESPACE", text);
  }
  void AddMetricsAddress(std::string& value) {
    Add("--metrics-address", value, "HOST:PORT",
        absl::StrCat("Address of the agent's metrics [default: ", value, "]"));
  }
  // Adds the options of `explain` and `fleet explain`.
  void AddExplained(ExplainOptions& options) {
    Add("--from", *options.request.mutable_from(), "ADDRESS",
        "Source IP address, or \"node\" [default: explain each kind of source]");
    AddOutput(options.output, kTextJsonOrYaml);
    AddPositional("TO", options.to,
                  "ADDRESS:PORT[/PROTOCOL], or NAMESPACE/NAME[:PORT] of a Service")
        ->required();
  }

 private:
  CLI::App& app_;
};

// Adds a command. `finish`, if any, checks and completes the values of its options.
Definition AddCommand(CLI::App& parent, Options& options, const char* name, const char* description,
                      const char* footer, Runner run,
                      const std::function<void()>& finish = nullptr) {
  CLI::App& app = *parent.add_subcommand(name, description);
  app.footer(footer);
  app.callback([&options, run, finish] {
    options.run = run;
    if (finish) finish();
  });
  return Definition(app);
}

// The words that select objects.
struct Selection {
  std::string kind, name_space;
  std::string name;                // get
  std::vector<std::string> names;  // delete
  bool all_namespaces = false;
};

void CheckNamespaces(bool all_namespaces, const std::string& name_space) {
  if (!all_namespaces || name_space.empty()) return;
  throw UsageError("--all-namespaces and --namespace cannot be used together");
}

// Parses "svc" with `name`, which can be empty, or "svc/web" or "svc/shop/web" without `name`, as
// printed by `get -o name`.
ObjectId ParseKindAndName(const std::string& word, const std::string& name,
                          const std::string& name_space) {
  const size_t slash = word.find('/');
  const bool named = slash != word.npos;
  if (named && !name.empty()) {
    throw UsageError(
        absl::StrCat("KIND/NAME ", Quote(word), " cannot be combined with NAME ", Quote(name)));
  }
  const KindInfo* kind = FindKindWord(word.substr(0, slash));
  if (kind == nullptr) {
    throw UsageError(absl::StrCat("kind: Unsupported value: ", Quote(word.substr(0, slash)),
                                  ": supported values: ", KindList()));
  }
  return ValueOf(ParseObjectId(*kind, named ? word.substr(slash + 1) : name, name_space,
                               /*name_required=*/named));
}

void FinishDelete(const Selection& words, DeleteOptions& options) {
  if (!options.files.empty()) {
    if (words.kind.empty() && words.name_space.empty()) return;
    throw UsageError("delete: --filename cannot be combined with KIND, NAME or --namespace");
  }
  const bool kind_in_name = words.kind.find('/') != words.kind.npos;
  if (words.names.empty() && !kind_in_name) {
    throw UsageError("delete: KIND and NAME, or --filename, are required");
  }
  std::vector<std::string> names = words.names;
  if (kind_in_name) names.insert(names.begin(), words.kind);
  for (const std::string& name : names) {
    ObjectId id = kind_in_name ? ParseKindAndName(name, "", words.name_space)
                               : ParseKindAndName(words.kind, name, words.name_space);
    if (id.name.empty()) throw UsageError("delete: NAME is missing in " + Quote(name));
    options.objects.push_back(std::move(id));
  }
}

void FinishGet(const Selection& words, GetOptions& options) {
  CheckNamespaces(words.all_namespaces, words.name_space);
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(words.kind, ','))) {
    ObjectId id = ParseKindAndName(word, words.name, words.name_space);
    // With --all-namespaces, a name without a namespace matches objects in all namespaces.
    const std::string name =
        word.find('/') == word.npos ? words.name : word.substr(word.find('/') + 1);
    if (words.all_namespaces && name.find('/') == name.npos) id.name_space.clear();
    options.filters.push_back(std::move(id));
  }
}

// Parses the destination, and checks the source.
void FinishExplain(ExplainOptions& options) {
  std::optional<Family> family;
  if (!ParseServicePort(options.to, options.service, options.service_port)) {
    ThrowIfBad(ParseDestination(options.to, options.request), "explain: TO: ");
    family = IpAddress::Parse(options.request.address())->family();
  }
  const std::string& from = options.request.from();
  if (from.empty() || from == "node") return;
  const std::optional<IpAddress> source = IpAddress::Parse(from);
  const auto bad = [&from](const std::string& expected) {
    return UsageError(absl::StrCat("--from: Invalid value: ", Quote(from), ": must ", expected));
  };
  if (!source) throw bad("be an IP address or \"node\"");
  if (family && source->family() != *family) {
    throw bad("have the same IP family as " + options.request.address());
  }
}

void ParseCondition(const std::string& word, WaitOptions& options) {
  constexpr std::string_view kRevision = "revision=";
  options.what_as_given = word;
  if (word == "serving") {
    options.what = WaitOptions::For::kServing;
  } else if (word == "controller") {
    options.what = WaitOptions::For::kController;
  } else if (word.starts_with(kRevision) &&
             absl::SimpleAtoi(word.substr(kRevision.size()), &options.revision)) {
    options.what = WaitOptions::For::kRevision;
  } else {
    throw UsageError(
        absl::StrCat("--for: Unsupported value: ", Quote(word),
                     ": supported values: \"serving\", \"controller\", \"revision=NUMBER\""));
  }
}

void FinishTop(const std::string& service, TopOptions& options) {
  if (service.empty()) return;
  if (options.group != RateGroup::kService) {
    throw UsageError("top: --endpoints and --by cannot be used together");
  }
  options.endpoints =
      ValueOf(ParseObjectId(*FindKind(v1::KIND_SERVICE), service, "", /*name_required=*/true),
              "--endpoints: ");
}

void DescribeProgram(CLI::App& app, Options& options) {
  app.require_subcommand(1);
  app.fallthrough();  // Options of the program may follow the command.
  app.footer(kProgramFooter);
  app.set_help_flag("-h,--help", "Print help and exit");
  app.set_version_flag("--version", VersionLine("svcmapctl"), "Print the version and exit");
  Definition program(app);
  program.Add("--address", options.address, "ADDRESS",
              absl::StrCat("Address of the agent: unix:///PATH or tcp://HOST:PORT\n"
                           "[default: $SVCMAP_ADDRESS or ",
                           std::string(kDefaultAddress), "]"));
  program.AddFile("--bundle", options.bundle,
                  "Read this file of \"svcmapctl support-bundle\" instead of calling the agent.\n"
                  "Only for get, status, dump and explain");
  program.AddFile("--tls-ca", options.tls.ca,
                  "PEM file of the CAs that may sign the agent's certificate. Enables TLS for a\n"
                  "tcp:// address [default: no TLS]");
  program.AddFile("--tls-cert", options.tls.certificate,
                  "PEM file of the client certificate; requires --tls-key");
  program.AddFile("--tls-key", options.tls.key, "PEM file of the client certificate's private key");
  program.Add("--tls-server-name", options.tls.server_name, "HOST",
              "Name that the agent's certificate must contain; requires --tls-ca\n"
              "[default: the host of the address]");
  program.AddDuration("--timeout", options.timeout,
                      "Time to wait for the connection and for each response");
}

void DescribeObjects(CLI::App& app, Options& options) {
  ApplyOptions& to = options.apply;
  Definition apply = AddCommand(
      app, options, "apply", "Create or update objects from manifests", kApplyFooter, RunApply,
      [&to] {
        if (to.prune || (!to.allow_empty && !to.force)) return;
        throw UsageError(absl::StrCat("apply: ", to.allow_empty ? "--allow-empty" : "--force",
                                      " requires --prune"));
      });
  apply.AddFiles(to.files)->required();
  apply.AddFlag("--strict", to.strict,
                "Send nothing if a manifest cannot be read, or if a field or kind is unknown");
  apply.AddFlag("--prune", to.prune, "Delete all objects that are not in the manifests");
  apply.AddFlag("--allow-empty", to.allow_empty, kAllowEmpty);
  apply.AddFlag("--force", to.force, "With --prune: disconnect a connected controller");
  apply.AddDryRun(to.dry_run);

  const auto words = std::make_shared<Selection>();
  Definition remove =
      AddCommand(app, options, "delete", "Delete objects by name or manifest", kDeleteFooter,
                 RunDelete, [words, &options] { FinishDelete(*words, options.remove); });
  remove.AddFiles(options.remove.files);
  remove.AddDryRun(options.remove.dry_run);
  remove.AddNamespace(words->name_space, "Namespace of the objects");
  remove.AddFlag("--ignore-not-found", options.remove.ignore_not_found,
                 "Do not report objects that do not exist");
  remove.AddPositional("KIND", words->kind, KindList());
  remove.AddPositional("NAME", words->names,
                       "NAMESPACE/NAME, or NAME in namespace \"default\" (repeatable)");

  AddCommand(app, options, "accept-snapshot",
             "Accept the removals of a snapshot that the agent holds", kAcceptSnapshotFooter,
             RunAcceptSnapshot);

  Definition get =
      AddCommand(app, options, "get", "List the objects that the agent stores", kGetFooter, RunGet,
                 [words, &options] { FinishGet(*words, options.get); });
  get.AddNamespace(words->name_space, "Namespace of the objects");
  get.AddFlag("-A,--all-namespaces", words->all_namespaces,
              "Select all namespaces [default unless a name is given]");
  get.AddOutput(options.get.output, {{"table", OutputFormat::kTable},
                                     {"wide", OutputFormat::kWide},
                                     {"json", OutputFormat::kJson},
                                     {"yaml", OutputFormat::kYaml},
                                     {"name", OutputFormat::kName}});
  get.AddPositional("KIND", words->kind, KindList())->required();
  get.AddPositional("NAME", words->name, "NAMESPACE/NAME, or NAME in namespace \"default\"");
}

void DescribeState(CLI::App& app, Options& options) {
  Definition status =
      AddCommand(app, options, "status", "Show the agent's status", kStatusFooter, RunStatus);
  status.AddOutput(options.output, kTextJsonOrYaml);
  status.AddFlag("-v,--verbose", options.verbose,
                 "On a terminal, also print all findings, stages and maps");

  Definition dump =
      AddCommand(app, options, "dump", "Print the ruleset in nft syntax", kDumpFooter, RunDump);
  dump.AddChoice<v1::DumpRequest::What>("WHAT", options.dump, "", "",
                                        {{"desired", v1::DumpRequest::DESIRED},
                                         {"applied", v1::DumpRequest::APPLIED},
                                         {"plan", v1::DumpRequest::PLAN}})
      ->required();

  ExplainOptions& explained = options.explain;
  Definition explain =
      AddCommand(app, options, "explain", "Explain how svcmap handles a connection, step by step",
                 kExplainFooter, RunExplain, [&explained] { FinishExplain(explained); });
  explain.AddExplained(explained);
  explain.Add("--in-interface", *explained.request.mutable_in_interface(), "NAME",
              "Interface on which the packet arrives; used if pods are detected by interface");
  explain.AddFlag("--requirements", explained.requirements,
                  "Print the numbers of the requirements in docs/specification.md");
  explain.AddFlag("-v,--verbose", explained.verbose,
                  "On a terminal, also print all steps, and the chain names of kube-proxy");

  Definition wait = AddCommand(app, options, "wait", "Wait until the agent meets a condition",
                               kWaitFooter, RunWait);
  wait.app()
      .add_option_function<std::string>(
          "--for", [&options](const std::string& word) { ParseCondition(word, options.wait); },
          "Condition: serving, controller or revision=NUMBER [default: serving]")
      ->type_name("CONDITION");
  wait.AddDuration("--timeout", options.wait.timeout, "Total time to wait");

  Definition watch = AddCommand(app, options, "watch", "Print events of the agent as they happen",
                                kWatchFooter, RunWatch);
  watch.AddOutput(options.output, kTextOrJson);
}

void DescribeDiagnosis(CLI::App& app, Options& options) {
  CheckOptions& checked = options.check;
  const auto all_namespaces = std::make_shared<bool>(false);
  Definition check =
      AddCommand(app, options, "check", "Connect to Services and explain unexpected results",
                 kCheckFooter, RunCheck, [&checked, all_namespaces] {
                   CheckNamespaces(*all_namespaces, checked.name_space);
                   if (checked.netns.empty() || checked.pid == 0) return;
                   throw UsageError("check: --netns and --pid cannot be used together");
                 });
  check.Add("--netns", checked.netns, "NAME",
            "Network namespace to connect from: a name in /run/netns, or a path\n"
            "[default: this namespace]");
  check.AddNumber("--pid", checked.pid, 1, INT_MAX,
                  "Connect from the network namespace of this process");
  check.AddNamespace(checked.name_space, "Kubernetes namespace of the Services [default: all]");
  check.AddFlag("-A,--all-namespaces", *all_namespaces, "Select all namespaces [default]");
  check.AddNumber("--sample", checked.sample, 1, INT_MAX,
                  "Check only this number of random addresses");
  check.AddNumber("--rate", checked.limits.per_second, 1, 10000,
                  "Connections per second, 1 to 10000 [default: 100]");
  check.AddDuration("--probe-timeout", checked.limits.timeout, "Time to wait for each answer");
  check.AddFlag("--no-endpoints", checked.no_endpoints, "Do not connect to endpoints directly");
  check.AddOutput(checked.output, kTextOrJson);

  const auto service = std::make_shared<std::string>();
  Definition top =
      AddCommand(app, options, "top", "Show new connections per second by Service or endpoint",
                 kTopFooter, RunTop, [service, &options] { FinishTop(*service, options.top); });
  top.AddMetricsAddress(options.top.metrics_address);
  top.Add("--endpoints", *service, "NAMESPACE/NAME", "Show the endpoints of this Service");
  top.AddDuration("--interval", options.top.interval, "Time between two readings");
  top.AddChoice<RateOrder>(
      "--sort", options.top.order, "ORDER", "Order of lines: ",
      {{"rate", RateOrder::kRate}, {"total", RateOrder::kTotal}, {"name", RateOrder::kName}});
  top.AddChoice<RateGroup>("--by", options.top.group, "GROUP", "Group connections by: ",
                           {{"service", RateGroup::kService},
                            {"port", RateGroup::kPort},
                            {"destination", RateGroup::kDestination}});
  top.AddNumber("--rows", options.top.rows, 0, INT_MAX,
                "Maximum number of lines [default: all that fit]");
  top.AddFlag("--once", options.top.once, "Print one interval and exit");

  BundleOptions& collected = options.support_bundle;
  Definition bundle = AddCommand(app, options, "support-bundle",
                                 "Collect facts about the agent and the node in a file",
                                 kBundleFooter, RunSupportBundle);
  bundle.AddPositional(
      "FILE", collected.file,
      "New file, or - for standard output [default: svcmap-bundle-NODE-TIME.tar.gz]");
  bundle.AddFlag("--hash-names", collected.hash_names,
                 "Replace names of namespaces, Services, EndpointSlices and Nodes with hashes");
  bundle.AddFile("--log", collected.log_file,
                 "Include this log file of svcmapd [default: the systemd journal]");
  bundle.AddFlag("--no-check", collected.no_check, "Do not connect to Services");
  bundle.AddMetricsAddress(collected.metrics_address);

  CLI::App& migrate =
      *app.add_subcommand("migrate", "Check whether this node is ready to replace kube-proxy");
  migrate.footer("");
  migrate.require_subcommand(1);
  AddCommand(migrate, options, "check", "Look for leftovers of kube-proxy and other conflicts",
             kMigrateCheckFooter, RunMigrateCheck)
      .AddOutput(options.output, kTextOrJson);
}

void DescribeFleet(CLI::App& app, Options& options) {
  FleetOptions& to = options.fleet;
  CLI::App& fleet =
      *app.add_subcommand("fleet", "Show the state of a fleet on etcd, or write its objects");
  fleet.footer(kFleetFooter);
  fleet.require_subcommand(1);
  const auto urls = std::make_shared<std::vector<std::string>>();
  Definition common(fleet);
  common
      .Add("--etcd-endpoints", *urls, "URL,...",
           "URLs of the etcd members, separated by commas: https://HOST:PORT")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->required();
  common.AddFile("--etcd-ca", to.etcd.tls.ca, "PEM file of the CAs of etcd's certificate");
  common.AddFile("--etcd-cert", to.etcd.tls.certificate, "PEM file of the client certificate");
  common.AddFile("--etcd-key", to.etcd.tls.key, "PEM file of its private key");
  common.Add("--prefix", to.prefix, "PREFIX", "Value of --prefix of svcmap-etcd")->required();
  common.Add("--status-prefix", to.status_prefix, "PREFIX",
             "Value of --status-prefix of svcmap-etcd; required except for apply");

  // Adds a command that reads the state of the fleet.
  const auto add_reader = [&](const char* name, const char* description, const char* footer,
                              Runner run, const std::function<void()>& finish = nullptr) {
    return AddCommand(fleet, options, name, description, footer, run, [urls, &to, finish] {
      ThrowIfBad(fleet::FinishServers(*urls, to.etcd));
      ThrowIfBad(fleet::CheckPrefix("--prefix", to.prefix));
      if (to.status_prefix.empty()) throw UsageError("fleet: --status-prefix is required");
      ThrowIfBad(fleet::CheckStatusPrefix(to.prefix, to.status_prefix));
      if (finish) finish();
    });
  };
  const auto add_seq = [&to](Definition& command) {
    command.Add("--seq", to.seq, "NUMBER",
                "The writer's sequence number [default: of the last wait, or of the head]");
  };

  Definition status = add_reader(
      "status", "Count the nodes that are up to date, behind, rejecting, unhealthy and silent", "",
      RunFleetStatus);
  add_seq(status);
  status.AddOutput(to.output, kTextOrJson);

  Definition nodes = add_reader("nodes", "Print the status of each node", "", RunFleetNodes);
  add_seq(nodes);
  nodes.AddFlag("--behind", to.behind, "Print nodes with a smaller sequence number");
  nodes.AddFlag("--rejecting", to.rejecting, "Print nodes with rejected objects");
  nodes.AddFlag("--silent", to.silent, "Print nodes without a status of the last 10 minutes");
  nodes.AddOutput(to.output, kTextOrJson);

  Definition wait = add_reader("wait", "Wait until svcmapd of enough nodes has acknowledged --seq",
                               kFleetWaitFooter, RunFleetWait, [&app] {
                                 if (app.count("--timeout") == 0) return;
                                 throw UsageError("fleet wait: --timeout must follow \"wait\"");
                               });
  wait.Add("--seq", to.seq, "NUMBER", "The writer's sequence number")->required();
  wait.AddNumber("--percent", to.percent, 1, 100, "Percentage of the nodes [default: 100]");
  wait.AddDuration("--timeout", to.timeout, "Total time to wait");
  wait.AddDuration("--window", to.window, "Time during which the nodes write their status",
                   fleet::kLongestWindow);
  wait.AddOutput(to.output, kTextOrJson);

  Definition explain = add_reader("explain", "Print the output of \"svcmapctl explain\" on a node",
                                  kFleetExplainFooter, RunFleetExplain,
                                  [&options] { FinishExplain(options.explain); });
  explain.AddPositional("NODE", to.node, "Name of the node")->required();
  explain.AddExplained(options.explain);

  const auto listen = std::make_shared<std::string>("127.0.0.1:10261");
  Definition serve = add_reader(
      "serve", "Serve a status page of the fleet over HTTP", "", RunFleetServe, [listen, &to] {
        to.listen = ValueOf(BindAddress::Parse(*listen, 0), "--listen: ");
        if (to.listen.port != 0) return;
        throw UsageError("--listen: Invalid value: " + Quote(*listen) + ": must contain a port");
      });
  add_seq(serve);
  serve.Add("--listen", *listen, "ADDRESS:PORT",
            absl::StrCat("Address and port of the status page [default: ", *listen, "]"));

  ApplyOptions& manifests = options.apply;
  Definition apply = AddCommand(fleet, options, "apply", "Write the objects of manifests to etcd",
                                kFleetApplyFooter, RunFleetApply, [urls, &to, &manifests] {
                                  ThrowIfBad(fleet::FinishServers(*urls, to.etcd));
                                  ThrowIfBad(fleet::CheckPrefix("--prefix", to.prefix));
                                  if (manifests.prune || !manifests.allow_empty) return;
                                  throw UsageError("fleet apply: --allow-empty requires --prune");
                                });
  apply.AddFiles(manifests.files)->required();
  apply.AddFlag("--strict", manifests.strict,
                "Write nothing if a manifest cannot be read, or if a field or kind is unknown");
  apply.AddFlag("--prune", manifests.prune,
                "Delete all objects that are not in the manifests, including Nodes");
  apply.AddFlag("--allow-empty", manifests.allow_empty, kAllowEmpty);
  apply.AddFlag("--force", manifests.force, "Write even if a Store is the elected writer");
  apply.AddDryRun(manifests.dry_run);
}

}  // namespace

void Describe(CLI::App& app, Options& options) {
  DescribeProgram(app, options);
  DescribeObjects(app, options);
  DescribeState(app, options);
  DescribeDiagnosis(app, options);
  DescribeFleet(app, options);
  AddCommand(app, options, "version", "Print the versions of svcmapctl and of the agent",
             kVersionFooter, RunVersion);

  AddCommand(app, options, "help", "Print the help of a command", kHelpFooter, nullptr)
      .AddPositional("COMMAND", options.help_topic,
                     "Name of the command, such as \"migrate check\"");

  const auto script = std::make_shared<const char*>("");
  AddCommand(app, options, "completion", "Print a completion script for a shell", kCompletionFooter,
             nullptr,
             [script, &options] {
               options.help = *script;
               options.help_is_script = true;
             })
      .AddChoice<const char*>(
          "SHELL", *script, "", "",
          {{"bash", kBashCompletion}, {"zsh", kZshCompletion}, {"fish", kFishCompletion}})
      ->required();
}

}  // namespace svcmap::api
