#include "api/cli/run.h"

#include <cstdlib>
#include <ostream>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/cli/bundle_reader.h"
#include "api/cli/completion.h"
#include "api/cli/describe.h"
#include "api/cli/help_text.h"
#include "api/cli/text.h"
#include "api/connect/target.h"
#include "api/convert/quote.h"

namespace svcmap::api {
namespace {

// Returns a message about a missing or unknown command, with a list of all commands.
std::string UnknownCommand(const CLI::App& app, const CLI::App& parent) {
  const std::vector<std::string> rest = app.remaining();
  return absl::StrCat(
      rest.empty() ? "no command specified" : "unknown command " + Quote(rest.front()),
      "; commands: ",
      absl::StrJoin(parent.get_subcommands(nullptr), ", ",
                    [](std::string* out, const CLI::App* sub) { *out += sub->get_name(); }));
}

// Returns the message of an error, prefixed with the command, such as "fleet wait".
std::string ParseProblem(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = &app;
  std::string name;
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    absl::StrAppend(&name, name.empty() ? "" : " ", command->get_name());
  }
  const bool required = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const bool unknown =
      command->get_require_subcommand_min() > 0 && (required || !app.remaining().empty());
  return absl::StrCat(name, name.empty() ? "" : ": ",
                      unknown ? UnknownCommand(app, *command) : OneLine(error.what()));
}

// Checks the options of the program. `command` is the name of the command.
absl::Status FinishProgram(const std::string& command, const std::string& address_from_env,
                           Options& options) {
  const char* source = options.address.empty() ? "SVCMAP_ADDRESS: " : "--address: ";
  if (options.address.empty()) options.address = address_from_env;
  if (options.address.empty()) options.address = kDefaultAddress;
  const auto target = ParseTarget(options.address);
  if (!target.ok())
    return absl::InvalidArgumentError(source + std::string(target.status().message()));
  options.target = *target;
  // `fleet explain` connects to the address of a node instead.
  const std::string dialed = options.fleet.node.empty() ? options.address : "tcp://";
  if (const absl::Status tls = CheckTlsFlags(options.tls, dialed); !tls.ok()) return tls;
  const std::set<std::string_view> read_bundles = {"get", "status", "dump", "explain"};
  if (!options.bundle.empty() && !read_bundles.contains(command)) {
    return absl::InvalidArgumentError("--bundle: only supported by get, status, dump and explain");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Options> ParseCommandLine(const std::vector<std::string>& args,
                                         const std::string& address_from_env) {
  Options options;
  CLI::App app(kProgramDescription, "svcmapctl");
  Describe(app, options);
  try {
    app.parse(
        std::vector<std::string>(args.rbegin(), args.rend()));  // CLI11 expects reverse order.
  } catch (const CLI::CallForHelp&) {
    const std::vector<std::string> rest = app.remaining();
    if (!rest.empty()) return absl::InvalidArgumentError(ParseProblem(app, CLI::ExtrasError(rest)));
    options.help = app.help();
  } catch (const CLI::CallForVersion& version) {
    options.help = absl::StrCat(version.what(), "\n");
  } catch (const UsageError& error) {
    return absl::InvalidArgumentError(error.what());
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(ParseProblem(app, error));
  }
  if (!options.help.empty()) return options;
  const std::string command = app.get_subcommands().front()->get_name();
  if (command == "help") {
    const CLI::App* topic = &app;
    for (const std::string& word : options.help_topic) {
      const std::vector<const CLI::App*> named =
          topic->get_subcommands([&word](const CLI::App* sub) { return sub->check_name(word); });
      if (named.empty()) return absl::InvalidArgumentError("help: unknown command " + Quote(word));
      topic = named.front();
    }
    options.help_topic.push_back("--help");
    return ParseCommandLine(options.help_topic, address_from_env);
  }
  const absl::Status status = FinishProgram(command, address_from_env, options);
  if (!status.ok()) return status;
  return options;
}

int Run(const std::vector<std::string>& args, std::istream& in, std::ostream& out,
        std::ostream& err, TerminalSize screen) {
  const char* address = std::getenv("SVCMAP_ADDRESS");
  if (!args.empty() && args[0] == "__complete") {
    return RunComplete({args.begin() + 1, args.end()}, address == nullptr ? "" : address, out);
  }
  const auto parsed = ParseCommandLine(args, address == nullptr ? "" : address);
  if (!parsed.ok()) {
    err << "error: " << parsed.status().message() << "; see svcmapctl --help\n";
    return static_cast<int>(ExitCode::kUsage);
  }
  const Options& options = *parsed;
  if (!options.help.empty()) {
    out << FitLines(options.help, options.help_is_script ? 0 : screen.columns);
    return static_cast<int>(ExitCode::kOk);
  }
  const absl::StatusOr<TlsMaterial> tls = ReadTlsFiles(options.tls);
  const absl::Status sound = tls.ok() ? CheckTlsMaterial(*tls, options.tls) : tls.status();
  if (!sound.ok()) {
    err << "error: --tls-cert, --tls-key, --tls-ca: " << sound.message() << '\n';
    return static_cast<int>(ExitCode::kUsage);
  }
  const std::unique_ptr<Client> client = NewClient(options.target, *tls, options.timeout);
  std::unique_ptr<BundleReader> bundle;
  if (!options.bundle.empty()) {
    absl::StatusOr<std::unique_ptr<BundleReader>> opened = BundleReader::Open(options.bundle);
    if (!opened.ok()) {
      err << "error: --bundle: " << opened.status().message() << '\n';
      return static_cast<int>(ExitCode::kIncomplete);
    }
    bundle = *std::move(opened);
  }
  Session session{*client,
                  bundle ? static_cast<Reader&>(*bundle) : *client,
                  options.address,
                  options.bundle,
                  in,
                  out,
                  err,
                  screen};
  return static_cast<int>(options.run(options, session));
}

}  // namespace svcmap::api
