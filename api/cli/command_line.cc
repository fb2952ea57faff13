#include "api/cli/command_line.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "api/cli/completion.h"
#include "api/cli/describe.h"
#include "api/cli/destination.h"
#include "api/cli/help_text.h"
#include "api/cli/text.h"
#include "api/connect/target.h"
#include "api/convert/quote.h"
#include "api/fleet/node_status.h"
#include "nft/types/ip_address.h"

namespace svcmap::api {
namespace {

constexpr char kDefaultListen[] = "127.0.0.1:10261";  // Of `fleet serve`.

absl::Status Usage(const std::string& message) { return absl::InvalidArgumentError(message); }

// Returns the value of the choice whose name is `word`. If no choice matches, returns an error that
// lists the supported values.
template <typename T>
absl::StatusOr<T> Choose(std::string_view option, const std::string& word,
                         const std::vector<std::pair<std::string, T>>& choices) {
  std::string all;
  for (const auto& [name, value] : choices) {
    if (name == word) return value;
    absl::StrAppend(&all, all.empty() ? "" : ", ", Quote(name));
  }
  return Usage(absl::StrCat(std::string(option), ": Unsupported value: ", Quote(word),
                            ": supported values: ", all));
}

absl::StatusOr<const KindInfo*> ParseKind(const std::string& word) {
  const KindInfo* kind = FindKindWord(word);
  if (kind == nullptr)
    return Usage(
        absl::StrCat("kind: Unsupported value: ", Quote(word), ": supported values: ", KindList()));
  return kind;
}

// Parses "svc" with `name`, which can be empty, or "svc/web" or "svc/shop/web" without `name`, as
// printed by `get -o name`.
absl::StatusOr<ObjectId> ParseKindAndName(const std::string& word, const std::string& name,
                                          const std::string& name_space) {
  const size_t slash = word.find('/');
  const bool named = slash != word.npos;
  if (named && !name.empty()) {
    return Usage(
        absl::StrCat("KIND/NAME ", Quote(word), " cannot be combined with NAME ", Quote(name)));
  }
  const auto kind = ParseKind(word.substr(0, slash));
  if (!kind.ok()) return kind.status();
  return ParseObjectId(**kind, named ? word.substr(slash + 1) : name, name_space,
                       /*name_required=*/named);
}

absl::StatusOr<std::chrono::milliseconds> ParseTimeout(const std::string& text,
                                                       const char* option = "--timeout") {
  absl::StatusOr<std::chrono::milliseconds> timeout = ParseDuration(text);
  if (timeout.ok()) return timeout;
  return Usage(absl::StrCat(option, ": ", std::string(timeout.status().message())));
}

ApplyOptions ApplyOptionsOf(const Words& words) {
  return {.files = words.apply_files,
          .strict = words.strict,
          .prune = words.prune,
          .allow_empty = words.allow_empty,
          .force = words.force,
          .dry_run = words.dry_run};
}

absl::StatusOr<Command> MakeApply(const Words& words) {
  for (const auto& [given, flag] :
       {std::pair(words.allow_empty, "--allow-empty"), std::pair(words.force, "--force")}) {
    if (given && !words.prune) return Usage(absl::StrCat("apply: ", flag, " requires --prune"));
  }
  return ApplyOptionsOf(words);
}

absl::StatusOr<Command> MakeDelete(const Words& words) {
  if (!words.delete_files.empty()) {
    if (!words.kind.empty() || !words.name_space.empty()) {
      return Usage("delete: --filename cannot be combined with KIND, NAME or --namespace");
    }
    return DeleteOptions{words.delete_files, {}, words.dry_run, words.ignore_not_found};
  }
  const bool kind_in_name = words.kind.find('/') != words.kind.npos;
  if (words.delete_names.empty() && !kind_in_name) {
    return Usage("delete: KIND and NAME, or --filename, are required");
  }
  std::vector<std::string> names = words.delete_names;
  if (kind_in_name) names.insert(names.begin(), words.kind);
  DeleteOptions options{.files = {},
                        .objects = {},
                        .dry_run = words.dry_run,
                        .ignore_not_found = words.ignore_not_found};
  for (const std::string& name : names) {
    const auto id = kind_in_name ? ParseKindAndName(name, "", words.name_space)
                                 : ParseKindAndName(words.kind, name, words.name_space);
    if (!id.ok()) return id.status();
    if (id->name.empty()) return Usage("delete: NAME is missing in " + Quote(name));
    options.objects.push_back(*id);
  }
  return options;
}

absl::StatusOr<Command> MakeAcceptSnapshot(const Words&) { return AcceptSnapshotOptions(); }

absl::StatusOr<Command> MakeGet(const Words& words) {
  GetOptions options;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(words.kind, ','))) {
    auto id = ParseKindAndName(word, words.name, words.name_space);
    if (!id.ok()) return id.status();
    // With --all-namespaces, a name without a namespace matches objects in all namespaces.
    const std::string name =
        word.find('/') == word.npos ? words.name : word.substr(word.find('/') + 1);
    if (words.all_namespaces && name.find('/') == name.npos) id->name_space.clear();
    options.filters.push_back(*std::move(id));
  }
  const auto output =
      Choose<OutputFormat>("--output", words.output.empty() ? "table" : words.output,
                           {{"table", OutputFormat::kTable},
                            {"wide", OutputFormat::kWide},
                            {"json", OutputFormat::kJson},
                            {"yaml", OutputFormat::kYaml},
                            {"name", OutputFormat::kName}});
  if (!output.ok()) return output.status();
  options.output = *output;
  return options;
}

// Parses the --output flag of a command that prints a single message.
absl::StatusOr<OutputFormat> PageFormat(const Words& words) {
  return Choose<OutputFormat>("--output", words.output.empty() ? "text" : words.output,
                              {{"text", OutputFormat::kTable},
                               {"json", OutputFormat::kJson},
                               {"yaml", OutputFormat::kYaml}});
}

absl::StatusOr<OutputFormat> TextOrJson(const Words& words) {
  return Choose<OutputFormat>("--output", words.output.empty() ? "text" : words.output,
                              {{"text", OutputFormat::kTable}, {"json", OutputFormat::kJson}});
}

absl::StatusOr<Command> MakeStatus(const Words& words) {
  const auto output = PageFormat(words);
  if (!output.ok()) return output.status();
  return StatusOptions{*output, words.verbose};
}

absl::StatusOr<Command> MakeVersion(const Words& /*words*/) { return VersionOptions{}; }

absl::StatusOr<Command> MakeDump(const Words& words) {
  const auto what = Choose<v1::DumpRequest::What>("dump: WHAT", words.what,
                                                  {{"desired", v1::DumpRequest::DESIRED},
                                                   {"applied", v1::DumpRequest::APPLIED},
                                                   {"plan", v1::DumpRequest::PLAN}});
  if (!what.ok()) return what.status();
  return DumpOptions{*what};
}

absl::StatusOr<Command> MakeExplain(const Words& words) {
  const auto output = PageFormat(words);
  if (!output.ok()) return output.status();
  ExplainOptions options{
      .output = *output, .requirements = words.requirements, .verbose = words.verbose};
  std::optional<Family> family;
  if (const auto named = ParseServicePort(words.to)) {
    options.service = {v1::KIND_SERVICE, named->name_space, named->name};
    options.service_port = named->port;
  } else {
    const auto destination = ParseDestination(words.to);
    if (!destination.ok()) {
      return Usage(absl::StrCat("explain: TO: ", std::string(destination.status().message())));
    }
    options.request.set_address(destination->address);
    options.request.set_port(destination->port);
    options.request.set_protocol(destination->protocol);
    family = IpAddress::Parse(destination->address)->family();
  }
  options.request.set_in_interface(words.in_interface);
  options.request.set_from(words.from);
  if (words.from.empty() || words.from == "node") return options;
  const std::optional<IpAddress> from = IpAddress::Parse(words.from);
  if (!from) {
    return Usage(absl::StrCat("--from: Invalid value: ", Quote(words.from),
                              ": must be an IP address or \"node\""));
  }
  if (family && from->family() != *family) {
    return Usage(absl::StrCat("--from: Invalid value: ", Quote(words.from),
                              ": must have the same IP family as ", options.request.address()));
  }
  return options;
}

absl::StatusOr<Command> MakeWait(const Words& words) {
  constexpr std::string_view kRevision = "revision=";
  WaitOptions options;
  options.what_as_given = words.wait_for;
  const auto timeout = ParseTimeout(words.wait_timeout);
  if (!timeout.ok()) return timeout.status();
  options.timeout = *timeout;
  if (words.wait_for == "controller") {
    options.what = WaitOptions::For::kController;
  } else if (words.wait_for.starts_with(kRevision) &&
             absl::SimpleAtoi(words.wait_for.substr(kRevision.size()), &options.revision)) {
    options.what = WaitOptions::For::kRevision;
  } else if (words.wait_for != "serving") {
    return Usage(
        absl::StrCat("--for: Unsupported value: ", Quote(words.wait_for),
                     ": supported values: \"serving\", \"controller\", \"revision=NUMBER\""));
  }
  return options;
}

absl::StatusOr<Command> MakeWatch(const Words& words) {
  const auto output = TextOrJson(words);
  if (!output.ok()) return output.status();
  return WatchOptions{*output};
}

absl::StatusOr<Command> MakeCheck(const Words& words) {
  const auto output = TextOrJson(words);
  if (!output.ok()) return output.status();
  if (!words.netns.empty() && words.pid != 0) {
    return Usage("check: --netns and --pid cannot be used together");
  }
  const auto timeout = ParseTimeout(words.probe_timeout, "--probe-timeout");
  if (!timeout.ok()) return timeout.status();
  return CheckOptions{.netns = words.netns,
                      .pid = words.pid,
                      .name_space = words.name_space,
                      .sample = words.sample,
                      .endpoints = !words.no_endpoints,
                      .limits = {.per_second = words.rate, .timeout = *timeout},
                      .output = *output};
}

absl::StatusOr<Command> MakeMigrate(const Words& words) {
  if (words.migrate != "check") {
    return Usage(absl::StrCat("migrate: Unsupported value: ", Quote(words.migrate),
                              ": supported values: \"check\""));
  }
  const auto output = TextOrJson(words);
  if (!output.ok()) return output.status();
  return MigrateCheckOptions{*output};
}

absl::StatusOr<Command> MakeTop(const Words& words) {
  const auto group = Choose<RateGroup>("--by", words.by,
                                       {{"service", RateGroup::kService},
                                        {"port", RateGroup::kPort},
                                        {"destination", RateGroup::kDestination}});
  if (!group.ok()) return group.status();
  const auto order = Choose<RateOrder>(
      "--sort", words.sort,
      {{"rate", RateOrder::kRate}, {"total", RateOrder::kTotal}, {"name", RateOrder::kName}});
  if (!order.ok()) return order.status();
  const auto interval = ParseTimeout(words.interval, "--interval");
  if (!interval.ok()) return interval.status();
  TopOptions options{.metrics_address = words.metrics_address,
                     .group = *group,
                     .order = *order,
                     .interval = *interval,
                     .rows = words.rows,
                     .once = words.once};
  if (words.endpoints.empty()) return options;
  if (words.by != "service") return Usage("top: --endpoints and --by cannot be used together");
  const auto id = ParseObjectId(*FindKind(v1::KIND_SERVICE), words.endpoints, "",
                                /*name_required=*/true);
  if (!id.ok()) return Usage(absl::StrCat("--endpoints: ", std::string(id.status().message())));
  options.endpoints = *id;
  return options;
}

absl::StatusOr<Command> MakeBundle(const Words& words) {
  return BundleOptions{.file = words.bundle_file,
                       .hash_names = words.hash_names,
                       .log_file = words.log_file,
                       .check = !words.no_check,
                       .metrics_address = words.metrics_address};
}

// Makes the options of `fleet apply`.
absl::StatusOr<Command> MakeFleetApply(const Words& words) {
  if (words.apply_files.empty()) return Usage("fleet: apply requires --filename");
  if (words.behind || words.rejecting || words.silent || words.seq || !words.output.empty()) {
    return Usage(
        "fleet: apply does not support --behind, --rejecting, --silent, --seq and --output");
  }
  if (words.allow_empty && !words.prune) return Usage("fleet: --allow-empty requires --prune");
  FleetApplyOptions options{.etcd = {.endpoints = {}, .tls = words.etcd_tls},
                            .prefix = words.prefix,
                            .manifests = ApplyOptionsOf(words)};
  for (const absl::Status& status : {fleet::FinishServers(words.etcd_urls, options.etcd),
                                     fleet::CheckPrefix("--prefix", options.prefix)}) {
    if (!status.ok()) return status;
  }
  return options;
}

// Makes the options of `fleet explain`.
absl::StatusOr<Command> MakeFleetExplain(const Words& words, FleetOptions fleet) {
  absl::StatusOr<Command> explain = MakeExplain(words);
  if (!explain.ok()) return explain.status();
  const auto timeout =
      ParseTimeout(words.fleet_timeout.empty() ? words.timeout : words.fleet_timeout);
  if (!timeout.ok()) return timeout.status();
  return FleetExplainOptions{
      .fleet = std::move(fleet),
      .node = words.node,
      .explain = std::get<ExplainOptions>(*std::move(explain)),
      .command =
          absl::StrCat("explain ", words.to, words.from.empty() ? "" : " --from ", words.from),
      .tls = words.tls,
      .timeout = *timeout};
}

absl::StatusOr<Command> MakeFleet(const Words& words) {
  using What = FleetOptions::What;
  const auto chosen = Choose<std::optional<What>>("fleet: WHAT", words.fleet,
                                                  {{"status", What::kStatus},
                                                   {"nodes", What::kNodes},
                                                   {"wait", What::kWait},
                                                   {"explain", What::kExplain},
                                                   {"serve", What::kServe},
                                                   {"apply", std::nullopt}});
  if (!chosen.ok()) return chosen.status();
  if (words.fleet == "explain" ? words.to.empty() : !(words.node + words.to + words.from).empty()) {
    return Usage("fleet: explain requires NODE and TO; other commands do not support --from");
  }
  if (words.fleet != "serve" && !words.listen.empty()) {
    return Usage("fleet: --listen requires serve");
  }
  if (!*chosen) return MakeFleetApply(words);
  const What what = **chosen;
  if (!words.apply_files.empty() || words.strict || words.prune || words.allow_empty ||
      words.force || words.dry_run) {
    return Usage(
        "fleet: --filename, --strict, --prune, --allow-empty, --force and --dry-run require apply");
  }
  if (words.status_prefix.empty()) {
    return Usage("fleet: " + words.fleet + " requires --status-prefix");
  }
  if ((words.behind || words.rejecting || words.silent) && what != What::kNodes) {
    return Usage("fleet: --behind, --rejecting and --silent require nodes");
  }
  if (what == What::kWait && !words.seq) return Usage("fleet: wait requires --seq");
  FleetOptions options{.what = what,
                       .etcd = {.endpoints = {}, .tls = words.etcd_tls},
                       .prefix = words.prefix,
                       .status_prefix = words.status_prefix,
                       .behind = words.behind,
                       .rejecting = words.rejecting,
                       .silent = words.silent,
                       .seq = words.seq,
                       .percent = words.percent};
  for (const absl::Status& status :
       {fleet::FinishServers(words.etcd_urls, options.etcd),
        fleet::CheckPrefix("--prefix", options.prefix),
        fleet::CheckPrefix("--status-prefix", options.status_prefix)}) {
    if (!status.ok()) return status;
  }
  if (what == What::kExplain) return MakeFleetExplain(words, std::move(options));
  if (what == What::kServe) {
    const auto at = BindAddress::Parse(words.listen.empty() ? kDefaultListen : words.listen, 0);
    if (!at.ok()) return Usage("--listen: " + std::string(at.status().message()));
    if (at->port == 0) {
      return Usage("--listen: Invalid value: " + Quote(words.listen) + ": must contain a port");
    }
    return FleetServeOptions{.fleet = std::move(options), .listen = *at};
  }
  const auto timeout = ParseTimeout(words.fleet_timeout.empty() ? "60s" : words.fleet_timeout);
  if (!timeout.ok()) return timeout.status();
  options.timeout = *timeout;
  const auto window = ParseTimeout(words.window, "--window");
  if (!window.ok()) return window.status();
  options.window = std::chrono::ceil<std::chrono::seconds>(*window);
  if (options.window > fleet::kLongestWindow) {
    return Usage("--window: Invalid value: " + Quote(words.window) + ": must be at most 1h");
  }
  const auto output = TextOrJson(words);
  if (!output.ok()) return output.status();
  options.output = *output;
  return options;
}

using Maker = absl::StatusOr<Command> (*)(const Words&);

// Returns the function that converts the values of `command` to its options.
Maker MakerOf(const std::string& command) {
  static const std::map<std::string, Maker> makers = {
      {"apply", MakeApply},     {"delete", MakeDelete}, {"accept-snapshot", MakeAcceptSnapshot},
      {"get", MakeGet},         {"status", MakeStatus}, {"dump", MakeDump},
      {"explain", MakeExplain}, {"wait", MakeWait},     {"watch", MakeWatch},
      {"check", MakeCheck},     {"top", MakeTop},       {"support-bundle", MakeBundle},
      {"migrate", MakeMigrate}, {"fleet", MakeFleet},   {"version", MakeVersion}};
  return makers.at(command);
}

// Returns whether a support bundle can answer all calls of the command.
bool ReadsBundles(const Command& command) {
  return std::holds_alternative<GetOptions>(command) ||
         std::holds_alternative<StatusOptions>(command) ||
         std::holds_alternative<DumpOptions>(command) ||
         std::holds_alternative<ExplainOptions>(command);
}

// Returns CLI11's error message, prefixed with the command. For a missing or unknown command,
// returns a message that lists the commands.
std::string ParseProblem(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  if (!given.empty()) return absl::StrCat(given.front()->get_name(), ": ", OneLine(error.what()));
  std::string commands;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    absl::StrAppend(&commands, commands.empty() ? "" : ", ", command->get_name());
  }
  const std::vector<std::string> rest = app.remaining();
  if (rest.empty() && dynamic_cast<const CLI::RequiredError*>(&error) == nullptr) {
    return OneLine(error.what());
  }
  return absl::StrCat(
      rest.empty() ? "no command specified" : "unknown command " + Quote(rest.front()),
      "; commands: ", commands);
}

absl::StatusOr<Options> MakeOptions(const Words& words, const std::string& address_from_env,
                                    Maker maker) {
  Options options;
  options.address = !words.address.empty()      ? words.address
                    : !address_from_env.empty() ? address_from_env
                                                : std::string(kDefaultAddress);
  const auto target = ParseTarget(options.address);
  if (!target.ok()) {
    return Usage(absl::StrCat(words.address.empty() ? "SVCMAP_ADDRESS: " : "--address: ",
                              std::string(target.status().message())));
  }
  options.target = *target;
  // `fleet explain` connects to the address of a node instead.
  const std::string dialed = words.fleet == "explain" ? "tcp://" : options.address;
  if (const absl::Status tls = CheckTlsFlags(words.tls, dialed); !tls.ok()) return tls;
  options.tls = words.tls;
  const auto timeout = ParseTimeout(words.timeout);
  if (!timeout.ok()) return timeout.status();
  options.timeout = *timeout;
  if (words.all_namespaces && !words.name_space.empty()) {
    return Usage("--all-namespaces and --namespace cannot be used together");
  }
  absl::StatusOr<Command> command = maker(words);
  if (!command.ok()) return command.status();
  options.command = *std::move(command);
  if (!words.bundle.empty() && !ReadsBundles(options.command)) {
    return Usage("--bundle: only supported by get, status, dump and explain");
  }
  options.bundle = words.bundle;
  return options;
}

}  // namespace

absl::StatusOr<std::variant<Options, HelpText>> ParseCommandLine(
    const std::vector<std::string>& args, const std::string& address_from_env) {
  Words words;
  CLI::App app(kProgramDescription, "svcmapctl");
  Describe(app, words);
  try {
    app.parse(
        std::vector<std::string>(args.rbegin(), args.rend()));  // CLI11 expects reverse order.
  } catch (const CLI::CallForHelp&) {
    return HelpText{app.help()};
  } catch (const CLI::CallForVersion& version) {
    return HelpText{absl::StrCat(version.what(), "\n")};
  } catch (const CLI::ParseError& error) {
    return Usage(ParseProblem(app, error));
  }
  const std::string command = app.get_subcommands().front()->get_name();
  if (command == "help") {
    if (words.topic.empty()) return ParseCommandLine({"--help"}, address_from_env);
    const std::vector<const CLI::App*> named = std::as_const(app).get_subcommands(
        [&words](const CLI::App* sub) { return sub->check_name(words.topic.front()); });
    if (named.empty()) return Usage("help: unknown command " + Quote(words.topic.front()));
    words.topic.push_back("--help");
    return ParseCommandLine(words.topic, address_from_env);
  }
  if (command == "completion") {
    const auto script = Choose<const char*>(
        "completion: SHELL", words.shell,
        {{"bash", kBashCompletion}, {"zsh", kZshCompletion}, {"fish", kFishCompletion}});
    if (!script.ok()) return script.status();
    return HelpText{*script, /*is_script=*/true};
  }
  const absl::StatusOr<Options> options = MakeOptions(words, address_from_env, MakerOf(command));
  if (!options.ok()) return options.status();
  return *options;
}

}  // namespace svcmap::api
