#include "api/cli/run.h"

#include <cstdlib>
#include <ostream>
#include <variant>

#include "api/cli/bundle_reader.h"
#include "api/cli/command_line.h"
#include "api/cli/commands.h"
#include "api/cli/completion.h"
#include "api/cli/text.h"

namespace svcmap::api {

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
  if (const auto* help = std::get_if<HelpText>(&*parsed)) {
    out << FitLines(help->text, help->is_script ? 0 : screen.columns);
    return static_cast<int>(ExitCode::kOk);
  }
  const Options& options = std::get<Options>(*parsed);
  const absl::StatusOr<TlsMaterial> tls = ReadTlsFiles(options.tls);
  const absl::Status sound = tls.ok() ? CheckTlsMaterial(*tls, options.tls) : tls.status();
  if (!sound.ok()) {
    err << "error: --tls-cert, --tls-key, --tls-ca: " << sound.message() << '\n';
    return static_cast<int>(ExitCode::kUsage);
  }
  Client client(options.target, *tls, options.timeout);
  std::unique_ptr<BundleReader> bundle;
  if (!options.bundle.empty()) {
    absl::StatusOr<std::unique_ptr<BundleReader>> opened = BundleReader::Open(options.bundle);
    if (!opened.ok()) {
      err << "error: --bundle: " << opened.status().message() << '\n';
      return static_cast<int>(ExitCode::kIncomplete);
    }
    bundle = *std::move(opened);
  }
  Session session{client,
                  bundle ? static_cast<Reader&>(*bundle) : client,
                  options.address,
                  options.bundle,
                  in,
                  out,
                  err,
                  screen};
  return static_cast<int>(
      std::visit([&](const auto& command) { return Execute(command, session); }, options.command));
}

}  // namespace svcmap::api
