// svcmap-protocol-check: checks whether a running svcmapd implements the protocol. Uses only the
// protocol messages.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <future>
#include <sstream>

#include "api/version/version.h"
#include "tests/protocol/checks.h"
#include "tests/protocol/session.h"

namespace svcmap::protocol {
namespace {

struct Check {
  const char* name;
  const char* promise;  // The verified sentence, verbatim from proto/README.md or docs/security.md.
  void (*run)(const Target&, Verdict&);
  // Option that the check requires, with its flag, or null if the check requires no option.
  std::string Options::*needs = nullptr;
  const char* flag = nullptr;
  // True if the check runs concurrently with other checks, because the check mostly waits.
  bool beside = false;
};

// Checks in execution order. Later checks rely on behavior that earlier checks have verified.
constexpr Check kChecks[] = {
    {"half-open", "A connection without the HTTP/2 preface is closed after 10 s",
     CheckHalfOpenConnections, nullptr, nullptr, true},
    {"silent-stream",
     "A stream on which `Open` has not arrived within 10 s ends with `DEADLINE_EXCEEDED`",
     CheckSilentStream, nullptr, nullptr, true},
    {"snapshot",
     "At `SnapshotEnd`, the agent prunes every stored object that the snapshot did not list, "
     "**from "
     "any source**.",
     CheckSnapshot},
    {"batches",
     "One `Ack` answers each `Batch` and each `SnapshotEnd`, in the order of their numbers.",
     CheckBatches},
    {"endpoint-delta",
     "The agent treats the result like a complete EndpointSlice, so the validation, the results "
     "and the output of `List` are the same.",
     CheckEndpointDelta},
    {"resume",
     "Store the last token together with the controller's state and send it in "
     "`Open.state_token`. `Opened.resume` answers",
     CheckResume},
    {"cuts",
     "Acknowledged changes stay in effect. Changes without an Ack may or may not be in the kernel.",
     CheckCuts},
    {"fight",
     "When a second controller opens a stream, the first stream ends with `ABORTED: replaced by",
     CheckFight},
    {"replays", "A repeated or lower number ends the stream with `INVALID_ARGUMENT`.",
     CheckReplays},
    {"duplicates", "the kernel already had this state", CheckDuplicates},
    {"protocol-errors",
     "An error that ends the stream is about the protocol, never about an object.",
     CheckProtocolErrors},
    {"bad-objects",
     "the object is rejected. The previously accepted version, if any, stays in effect.",
     CheckBadObjects},
    {"not-messages",
     "a unary request is not a valid protobuf message, or contains invalid UTF-8 outside an object",
     CheckNotMessages},
    {"not-http2", "A connection without the HTTP/2 preface is closed after 10 s", CheckNotHttp2},
    {"flood",
     "At either limit, the agent stops reading. When the HTTP/2 flow control window is full, the "
     "writes of the controller block.",
     CheckFlood},
    {"large-message", "A message larger than `limits.max_batch_bytes` ends the call.",
     CheckLargeMessage},
    {"fencing",
     "From then on, a stream with a lower epoch (including 0), or with the same epoch from another "
     "holder, ends with `FAILED_PRECONDITION`",
     CheckFencing},
    {"wrong-client", "clients with a valid certificate that this CA signed", CheckWrongClient,
     &Options::wrong_client, "--wrong-client"},
    {"expired-client", "clients with a valid certificate that this CA signed", CheckExpiredClient,
     &Options::expired_client, "--expired-client"},
    {"outside-client", "A call without the required role returns `PERMISSION_DENIED`",
     CheckOutsideClient, &Options::outside_client, "--outside-client"},
    {"readonly-client", "the message names the method, the client and the flag.",
     CheckReadonlyClient, &Options::readonly_client, "--readonly-client"},
    {"no-certificate", "A TLS handshake fails. The client receives a TLS alert", CheckNoCertificate,
     &Options::ca, "--tls-ca"},
    {"plaintext", "A TLS handshake fails. The client receives a TLS alert", CheckPlaintext,
     &Options::ca, "--tls-ca"},
};

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
  app.add_option("--address", options.address,
                 "Address of the agent: unix:///path or tcp://host:port")
      ->check([](const std::string& text) {
        const bool known = text.starts_with("unix:///") || text.starts_with("tcp://");
        return known ? ""
                     : "Invalid value: \"" + text + "\": must be unix:///path or tcp://host:port";
      });
  file("--tls-ca", options.ca, "CA certificate of the agent; enables TLS");
  file("--tls-cert", options.certificate, "Client certificate with write access");
  file("--tls-key", options.key, "Private key of the client certificate");
  file("--wrong-client", options.wrong_client,
       "Certificate and key signed by a CA that the agent does not trust");
  file("--expired-client", options.expired_client,
       "Expired certificate and key of a client with write access");
  file("--outside-client", options.outside_client,
       "Certificate and key of a client without access");
  file("--readonly-client", options.readonly_client,
       "Certificate and key of a client with read access only");
  app.add_option("--epoch", options.epoch, "Lowest epoch to use [current time in seconds]");
  app.add_option("--only", arguments.only, "Run only this check; repeatable");
  app.add_flag("--list", arguments.list,
               "Print all checks with the verified sentence of the documentation");
  app.add_flag("--i-know-it-replaces-everything", arguments.replaces_everything,
               "Required: confirms that the agent may lose all its objects");
}

bool IsWanted(const Check& check, const std::vector<std::string>& only) {
  return only.empty() || std::find(only.begin(), only.end(), check.name) != only.end();
}

Verdict RunCheck(const Check& check, const Target& target) {
  Verdict verdict;
  check.run(target, verdict);
  return verdict;
}

// Prints the result of a check. Returns true if the check passed.
bool Print(const Check& check, const Verdict& verdict) {
  if (verdict.passed()) {
    const std::string notes = verdict.notes().empty() ? "" : " (" + verdict.notes() + ")";
    std::printf("passed %s%s\n", check.name, notes.c_str());
  } else {
    std::printf("FAILED %s: expected %s, got %s\n", check.name, verdict.expected().c_str(),
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
    std::fprintf(stderr, "error: connect to the agent at %s: %s\n",
                 arguments.options.address.c_str(), Text(status).c_str());
    return kNothingChecked;
  }
  std::printf("svcmapd version=%s node=%s address=%s\n", agent.version().c_str(),
              agent.node_name().c_str(), arguments.options.address.c_str());
  int passed = 0, failed = 0, skipped = 0;
  const auto count = [&](bool good) { ++(good ? passed : failed); };
  std::vector<std::pair<const Check*, std::future<Verdict>>> beside;
  for (const Check& check : kChecks) {
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
      "Checks whether a running svcmapd implements the protocol of proto/README.md.\n\n"
      "FOR TEST AGENTS ONLY: removes all objects of the agent, and leaves objects in the namespace "
      "svcmap-check and an epoch that excludes controllers with lower epochs.\n\n"
      "Exit codes: 0, all checks passed; 1, at least one check failed; 2, no check ran.",
      "svcmap-protocol-check");
  Arguments arguments;
  app.set_version_flag("--version", api::VersionLine("svcmap-protocol-check"));
  DefineFlags(app, arguments);
  CLI11_PARSE(app, argc, argv);
  const auto usage = [](const std::string& problem) {
    std::fprintf(stderr, "error: %s; no check was run\n", problem.c_str());
    return kNothingChecked;
  };
  for (const std::string& name : arguments.only) {
    if (std::ranges::none_of(kChecks, [&](const Check& c) { return c.name == name; })) {
      return usage("--only: Not found: \"" + name + "\": run --list for the names of all checks");
    }
  }
  if (arguments.list) {
    for (const Check& check : kChecks) std::printf("%s\t%s\n", check.name, check.promise);
    return kAllPassed;
  }
  if (arguments.options.address.empty()) return usage("--address: Required value");
  if (!arguments.replaces_everything) {
    return usage(
        "--i-know-it-replaces-everything: Required value: the checks remove all objects of the "
        "agent");
  }
  return RunAll(arguments);
}

}  // namespace
}  // namespace svcmap::protocol

int main(int argc, char** argv) { return svcmap::protocol::Main(argc, argv); }
