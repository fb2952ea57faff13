#include "tests/bench/record/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/support/process.h"

namespace svcmap::bench {
namespace {

// Sysctls for connection tracking, packet processing and socket buffers.
constexpr const char* kSysctls[] = {
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_buckets",
    "net/core/wmem_max",
    "net/core/rmem_max",
    "net/core/bpf_jit_enable",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/tcp_tw_reuse",
    "kernel/sched_autogroup_enabled",
    "vm/overcommit_memory",
    "vm/swappiness",
};

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Trimmed(const std::string& text) {
  return std::string(absl::StripAsciiWhitespace(text));
}

// Returns the first line of the command's output, or an empty string if the command fails.
std::string VersionOf(const std::vector<std::string>& argv) {
  const absl::StatusOr<std::string> out = testing::RunOk({.argv = argv});
  return out.ok() ? Trimmed(out->substr(0, out->find('\n'))) : "";
}

void Put(nlohmann::ordered_json& facts, const char* name, const std::string& value) {
  if (!value.empty()) facts[name] = value;
}

// Returns the value of the first line "NAME<separator>VALUE" with the given name, without
// surrounding whitespace and quotes. Returns an empty string if no line has the given name.
std::string ValueOf(const std::string& text, const std::string& name, char separator) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find(separator);
    if (at == std::string::npos || Trimmed(line.substr(0, at)) != name) continue;
    std::string value = Trimmed(line.substr(at + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    return value;
  }
  return "";
}

}  // namespace

absl::Status WriteMachine(const std::string& path, const MachineContext& context) {
  nlohmann::ordered_json facts;
  facts["date"] = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
  facts["command_line"] = context.command_line;
  Put(facts, "commit",
      VersionOf({"git", "-C", SVCMAP_SOURCE_DIR, "describe", "--always", "--dirty"}));
  Put(facts, "svcmapd", VersionOf({context.svcmapd, "--version"}));
  Put(facts, "nft", VersionOf({"nft", "--version"}));
  Put(facts, "iptables_legacy", VersionOf({"iptables-legacy", "--version"}));
  Put(facts, "iptables_nft", VersionOf({"iptables-nft", "--version"}));

  utsname kernel = {};
  uname(&kernel);
  facts["kernel"] = {{"release", kernel.release}, {"version", kernel.version}};
  facts["architecture"] = kernel.machine;
  Put(facts, "distribution", ValueOf(Contents("/etc/os-release"), "PRETTY_NAME", '='));
  const std::string cpu = Contents("/proc/cpuinfo");
  Put(facts, "cpu", ValueOf(cpu, "model name", ':'));
  Put(facts, "cpu_mhz", ValueOf(cpu, "cpu MHz", ':'));
  Put(facts, "cpu_cache", ValueOf(cpu, "cache size", ':'));
  facts["cpus"] = sysconf(_SC_NPROCESSORS_ONLN);
  Put(facts, "governor",
      Trimmed(Contents("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")));
  Put(facts, "hypervisor", Trimmed(Contents("/sys/hypervisor/type")));
  Put(facts, "memory", ValueOf(Contents("/proc/meminfo"), "MemTotal", ':'));
  Put(facts, "memory_available", ValueOf(Contents("/proc/meminfo"), "MemAvailable", ':'));
  Put(facts, "load_average", Trimmed(Contents("/proc/loadavg")));
  facts["pinning"] = context.pinning;
  for (const char* sysctl : kSysctls) {
    const std::string value = Trimmed(Contents(std::string("/proc/sys/") + sysctl));
    if (!value.empty()) facts["sysctls"][sysctl] = value;
  }
  // Replace invalid UTF-8, which CPU names and similar strings may contain.
  std::ofstream file(path);
  file << facts.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  file.close();
  return file.good() ? absl::OkStatus() : absl::UnknownError("cannot write " + path);
}

}  // namespace svcmap::bench
