#include "api/cli/command_line.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "api/cli/destination.h"
#include "api/cli/help_text.h"
#include "api/cli/target.h"
#include "api/cli/text.h"
#include "api/convert/quote.h"
#include "api/version/version.h"
#include "nft/types/ip_address.h"

namespace svcmap::api {
namespace {

// Raw command-line values, which CLI11 fills in. MakeOptions converts these values to Options.
struct Words {
  std::string address, timeout = "10s";
  TlsFiles tls;
  std::vector<std::string> apply_files, delete_files, delete_names;
  std::string kind, name, name_space, output, what, migrate, to, from, in_interface,
      wait_for = "serving", wait_timeout = "30s";
  bool strict = false, prune = false, dry_run = false, requirements = false;
};

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

absl::StatusOr<const KindWords*> ParseKind(const std::string& word) {
  const KindWords* kind = FindKind(word);
  if (kind == nullptr)
    return Usage(
        absl::StrCat("kind: Unsupported value: ", Quote(word), ": supported values: ", KindList()));
  return kind;
}

absl::StatusOr<std::chrono::milliseconds> ParseTimeout(const std::string& text) {
  absl::StatusOr<std::chrono::milliseconds> timeout = ParseDuration(text);
  if (timeout.ok()) return timeout;
  return Usage(absl::StrCat("--timeout: ", std::string(timeout.status().message())));
}

absl::StatusOr<Command> MakeApply(const Words& words) {
  if (words.dry_run && words.prune) {
    return Usage("apply: --dry-run and --prune cannot be used together");
  }
  return ApplyOptions{words.apply_files, words.strict, words.prune, words.dry_run};
}

absl::StatusOr<Command> MakeDelete(const Words& words) {
  if (!words.delete_files.empty()) {
    if (!words.kind.empty() || !words.name_space.empty()) {
      return Usage("delete: --filename cannot be combined with KIND, NAME or --namespace");
    }
    return DeleteOptions{words.delete_files, {}, words.dry_run};
  }
  if (words.delete_names.empty())
    return Usage("delete: KIND and NAME, or --filename, are required");
  const auto kind = ParseKind(words.kind);
  if (!kind.ok()) return kind.status();
  DeleteOptions options{.files = {}, .objects = {}, .dry_run = words.dry_run};
  for (const std::string& name : words.delete_names) {
    const auto id = ParseObjectId(**kind, name, words.name_space, /*name_required=*/true);
    if (!id.ok()) return id.status();
    options.objects.push_back(*id);
  }
  return options;
}

absl::StatusOr<Command> MakeGet(const Words& words) {
  const auto kind = ParseKind(words.kind);
  if (!kind.ok()) return kind.status();
  const auto id = ParseObjectId(**kind, words.name, words.name_space, /*name_required=*/false);
  if (!id.ok()) return id.status();
  const auto output =
      Choose<OutputFormat>("--output", words.output.empty() ? "table" : words.output,
                           {{"table", OutputFormat::kTable},
                            {"wide", OutputFormat::kWide},
                            {"json", OutputFormat::kJson},
                            {"yaml", OutputFormat::kYaml},
                            {"name", OutputFormat::kName}});
  if (!output.ok()) return output.status();
  return GetOptions{*id, *output};
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
  return StatusOptions{*output};
}

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
  const auto destination = ParseDestination(words.to);
  if (!destination.ok()) {
    return Usage(absl::StrCat("explain: TO: ", std::string(destination.status().message())));
  }
  ExplainOptions options{.output = *output, .requirements = words.requirements};
  options.request.set_address(destination->address);
  options.request.set_port(destination->port);
  options.request.set_protocol(destination->protocol);
  options.request.set_in_interface(words.in_interface);
  options.request.set_from(words.from);
  if (words.from.empty() || words.from == "node") return options;
  const std::optional<IpAddress> from = IpAddress::Parse(words.from);
  if (!from) {
    return Usage(absl::StrCat("--from: Invalid value: ", Quote(words.from),
                              ": must be an IP address or \"node\""));
  }
  if (from->family() != IpAddress::Parse(destination->address)->family()) {
    return Usage(absl::StrCat("--from: Invalid value: ", Quote(words.from),
                              ": must have the same IP family as ", destination->address));
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

absl::StatusOr<Command> MakeMigrate(const Words& words) {
  if (words.migrate != "check") {
    return Usage(absl::StrCat("migrate: Unsupported value: ", Quote(words.migrate),
                              ": supported values: \"check\""));
  }
  const auto output = TextOrJson(words);
  if (!output.ok()) return output.status();
  return MigrateCheckOptions{*output};
}

using Maker = absl::StatusOr<Command> (*)(const Words&);

// Defines the commands and options in CLI11. Returns, for each command, the function that converts
// `words` to its options.
std::map<const CLI::App*, Maker> Describe(CLI::App& app, Words& words) {
  std::map<const CLI::App*, Maker> makers;
  const auto command = [&](const char* name, const char* description, const char* footer,
                           Maker maker) {
    CLI::App* sub = app.add_subcommand(name, description);
    sub->footer(footer);
    makers[sub] = maker;
    return sub;
  };
  const auto files = [](CLI::App* sub, std::vector<std::string>& to) {
    return sub
        ->add_option("-f,--filename", to,
                     "Manifest, directory of manifests, or - for standard input (repeatable)")
        ->type_name("FILE")
        ->allow_extra_args(false);
  };
  const auto dry_run = [&words](CLI::App* sub) {
    sub->add_flag("--dry-run", words.dry_run, "Show the changes without making them");
  };
  const auto name_space = [&words](CLI::App* sub) {
    sub->add_option("-n,--namespace", words.name_space, "Namespace of the objects")
        ->type_name("NAMESPACE");
  };
  app.require_subcommand(1);
  app.fallthrough();  // Global options may follow the command.
  app.footer(kProgramFooter);
  app.set_help_flag("-h,--help", "Print help and exit");
  app.set_version_flag("--version", VersionLine("svcmapctl"), "Print the version and exit");
  app.add_option("--address", words.address,
                 "Address of the agent: unix:///PATH or tcp://HOST:PORT\n"
                 "[default: $SVCMAP_ADDRESS or " +
                     std::string(kDefaultAddress) + "]")
      ->type_name("ADDRESS");
  app.add_option("--tls-ca", words.tls.ca,
                 "PEM file of the CAs that may sign the agent's certificate. Enables TLS for a\n"
                 "tcp:// address [default: no TLS]")
      ->type_name("FILE");
  app.add_option("--tls-cert", words.tls.certificate,
                 "PEM file of the client certificate; requires --tls-key")
      ->type_name("FILE");
  app.add_option("--tls-key", words.tls.key, "PEM file of the client certificate's private key")
      ->type_name("FILE");
  app.add_option("--timeout", words.timeout,
                 "Time to wait for the connection and for each response [default: 10s]")
      ->type_name("DURATION");

  CLI::App* apply =
      command("apply", "Create or update objects from manifests", kApplyFooter, MakeApply);
  files(apply, words.apply_files)->required();
  apply->add_flag("--strict", words.strict, "Send nothing if a manifest cannot be read");
  apply->add_flag("--prune", words.prune, "Delete all objects that are not in the manifests");
  dry_run(apply);

  CLI::App* remove =
      command("delete", "Delete objects by name or manifest", kDeleteFooter, MakeDelete);
  files(remove, words.delete_files);
  dry_run(remove);
  name_space(remove);
  remove->add_option("KIND", words.kind, KindList())->type_name("");
  remove->add_option("NAME", words.delete_names, "NAMESPACE/NAME (repeatable)")->type_name("");

  CLI::App* get = command("get", "List the objects that the agent stores", kGetFooter, MakeGet);
  name_space(get);
  get->add_option("-o,--output", words.output,
                  "Output format: table, wide, json, yaml or name [default: table]")
      ->type_name("FORMAT");
  get->add_option("KIND", words.kind, KindList())->required()->type_name("");
  get->add_option("NAME", words.name, "NAMESPACE/NAME, or NAME in any namespace")->type_name("");

  constexpr char kPageFormats[] = "Output format: text, json or yaml [default: text]";
  constexpr char kLineFormats[] = "Output format: text or json [default: text]";
  CLI::App* status = command("status", "Show the agent's status", kStatusFooter, MakeStatus);
  status->add_option("-o,--output", words.output, kPageFormats)->type_name("FORMAT");

  CLI::App* dump = command("dump", "Print the ruleset in nft syntax", kDumpFooter, MakeDump);
  dump->add_option("WHAT", words.what, "desired, applied or plan")->required()->type_name("");

  CLI::App* explain = command("explain", "Explain how svcmap handles a connection, step by step",
                              kExplainFooter, MakeExplain);
  explain
      ->add_option("--from", words.from,
                   "Source IP address, or \"node\" [default: explain each kind of source]")
      ->type_name("ADDRESS");
  explain
      ->add_option("--in-interface", words.in_interface,
                   "Interface on which the packet arrives; used if pods are detected by interface")
      ->type_name("NAME");
  explain->add_flag("--requirements", words.requirements,
                    "Print the numbers of the requirements in docs/specification.md");
  explain->add_option("-o,--output", words.output, kPageFormats)->type_name("FORMAT");
  explain->add_option("TO", words.to, "ADDRESS:PORT[/PROTOCOL]")->required()->type_name("");

  CLI::App* wait = command("wait", "Wait until the agent meets a condition", kWaitFooter, MakeWait);
  wait->add_option("--for", words.wait_for,
                   "Condition: serving, controller or revision=NUMBER [default: serving]")
      ->type_name("CONDITION");
  wait->add_option("--timeout", words.wait_timeout, "Total time to wait [default: 30s]")
      ->type_name("DURATION");

  CLI::App* watch =
      command("watch", "Print events of the agent as they happen", kWatchFooter, MakeWatch);
  watch->add_option("-o,--output", words.output, kLineFormats)->type_name("FORMAT");

  CLI::App* migrate = command("migrate", "Check whether this node is ready to replace kube-proxy",
                              kMigrateFooter, MakeMigrate);
  migrate->add_option("-o,--output", words.output, kLineFormats)->type_name("FORMAT");
  migrate->add_option("WHAT", words.migrate, "check")->required()->type_name("");
  return makers;
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
  if (const absl::Status tls = CheckTlsFlags(words.tls, options.address); !tls.ok()) return tls;
  options.tls = words.tls;
  const auto timeout = ParseTimeout(words.timeout);
  if (!timeout.ok()) return timeout.status();
  options.timeout = *timeout;
  absl::StatusOr<Command> command = maker(words);
  if (!command.ok()) return command.status();
  options.command = *std::move(command);
  return options;
}

}  // namespace

absl::StatusOr<std::variant<Options, HelpText>> ParseCommandLine(
    const std::vector<std::string>& args, const std::string& address_from_env) {
  Words words;
  CLI::App app(kProgramDescription, "svcmapctl");
  const std::map<const CLI::App*, Maker> makers = Describe(app, words);
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
  const absl::StatusOr<Options> options =
      MakeOptions(words, address_from_env, makers.at(app.get_subcommands().front()));
  if (!options.ok()) return options.status();
  return *options;
}

}  // namespace svcmap::api
