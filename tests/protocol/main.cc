// svcmap-protocol-check: plays correct and hostile controllers against a running svcmapd, and
// prints which promises of the protocol it keeps. Knows the messages and nothing else of the agent.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <future>
#include <sstream>

#include "tests/protocol/checks.h"
#include "tests/protocol/session.h"

namespace svcmap::protocol {
namespace {

enum ExitCode { kAllPassed = 0, kSomeFailed = 1, kNothingChecked = 2 };

struct Arguments {
  Options options;
  std::vector<std::string> only;
  bool list = false;
  bool replaces_everything = false;
};

void ReadFile(const std::string& path, std::string& text) {
  std::stringstream read;
  read << std::ifstream(path).rdbuf();
  text = read.str();
}

void DefineFlags(CLI::App& app, Arguments& arguments) {
  Options& options = arguments.options;
  options.epoch = static_cast<uint64_t>(std::time(nullptr));
  const auto file = [&](const char* flag, std::string& text, const char* help) {
    app.add_option_function<std::string>(
           flag, [&text](const std::string& path) { ReadFile(path, text); }, help)
        ->check(CLI::ExistingFile)
        ->type_name("FILE");
  };
  app.add_option("--address", options.address, "unix:///path/to/socket or tcp://host:port")
      ->check([](const std::string& text) {
        const bool known = text.starts_with("unix:///") || text.starts_with("tcp://");
        return known ? "" : text + " is neither unix:///path nor tcp://host:port";
      });
  file("--tls-ca", options.ca, "whom to trust: the CA of the agent; without it there is no TLS");
  file("--tls-cert", options.certificate, "our certificate, of a client that may write");
  file("--tls-key", options.key, "its key");
  file("--wrong-client", options.wrong_client,
       "certificate and key, signed by a CA that the agent does not know");
  file("--expired-client", options.expired_client,
       "certificate and key that may write, but have expired");
  file("--outside-client", options.outside_client,
       "certificate and key of a client on none of the agent's lists");
  file("--readonly-client", options.readonly_client,
       "certificate and key of a client that may read and not write");
  app.add_option("--epoch", options.epoch,
                 "the lowest epoch to use; the default is the time, so that a later run takes over "
                 "from an earlier one");
  app.add_option("--only", arguments.only, "run this check; may be given several times");
  app.add_flag("--list", arguments.list, "print the names of the checks and what they rely on");
  app.add_flag("--i-know-it-replaces-everything", arguments.replaces_everything,
               "needed to run: all that the agent holds is replaced");
}

bool IsWanted(const Check& check, const std::vector<std::string>& only) {
  return only.empty() || std::find(only.begin(), only.end(), check.name) != only.end();
}

Verdict RunCheck(const Check& check, const Target& target) {
  Verdict verdict;
  check.run(target, verdict);
  return verdict;
}

// True if it passed.
bool Print(const Check& check, const Verdict& verdict) {
  if (verdict.passed()) {
    const std::string notes = verdict.notes().empty() ? "" : " (" + verdict.notes() + ")";
    std::printf("passed %s%s\n", check.name, notes.c_str());
  } else {
    std::printf("FAILED %s: expected %s, saw %s\n", check.name, verdict.expected().c_str(),
                verdict.saw().c_str());
  }
  std::fflush(stdout);
  return verdict.passed();
}

ExitCode RunAll(const Arguments& arguments) {
  const auto started = std::chrono::steady_clock::now();
  const Target target(arguments.options);
  v1::GetStatusResponse agent;
  if (const grpc::Status status = target.GetStatus(&agent); !status.ok()) {
    std::fprintf(stderr, "error: no agent answers at %s: %s\n", arguments.options.address.c_str(),
                 Text(status).c_str());
    return kNothingChecked;
  }
  std::printf("svcmapd %s on node %s at %s\n", agent.version().c_str(), agent.node_name().c_str(),
              arguments.options.address.c_str());
  int passed = 0, failed = 0, skipped = 0;
  const auto count = [&](bool good) { ++(good ? passed : failed); };
  std::vector<std::pair<const Check*, std::future<Verdict>>> beside;
  for (const Check& check : AllChecks()) {
    if (!IsWanted(check, arguments.only)) continue;
    if (check.needs != nullptr && (arguments.options.*check.needs).empty()) {
      std::printf("skipped %s: needs %s\n", check.name, check.flag);
      ++skipped;
    } else if (check.beside) {
      beside.emplace_back(&check, std::async(std::launch::async, [&check, &target] {
        return RunCheck(check, target);
      }));
    } else {
      count(Print(check, RunCheck(check, target)));
    }
  }
  for (auto& [check, verdict] : beside) count(Print(*check, verdict.get()));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  std::printf("%d passed, %d failed, %d skipped in %.1f s\n", passed, failed, skipped,
              took.count());
  return failed == 0 ? kAllPassed : kSomeFailed;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Plays correct and hostile controllers against a running svcmapd, and prints which promises "
      "of its protocol it keeps (proto/README.md). FOR TEST AGENTS ONLY: it sends snapshots, which "
      "remove every object that the agent holds, whoever pushed it; it leaves objects of its own "
      "(namespace svcmap-check), and an epoch that deposes controllers with lower ones. Exit code "
      "0: all passed; 1: some failed; 2: nothing was checked.");
  Arguments arguments;
  DefineFlags(app, arguments);
  CLI11_PARSE(app, argc, argv);
  const auto usage = [](const std::string& problem) {
    std::fprintf(stderr, "error: %s; nothing was done\n", problem.c_str());
    return kNothingChecked;
  };
  for (const std::string& name : arguments.only) {
    const auto all = AllChecks();
    if (std::none_of(all.begin(), all.end(), [&](const Check& c) { return c.name == name; })) {
      return usage("--only " + name + " is no check, see --list");
    }
  }
  if (arguments.list) {
    for (const Check& check : AllChecks()) std::printf("%s\t%s\n", check.name, check.promise);
    return kAllPassed;
  }
  if (arguments.options.address.empty()) return usage("--address is missing");
  if (!arguments.replaces_everything) {
    return usage("all that the agent holds would be replaced; say --i-know-it-replaces-everything");
  }
  return RunAll(arguments);
}

}  // namespace
}  // namespace svcmap::protocol

int main(int argc, char** argv) { return svcmap::protocol::Main(argc, argv); }
