#include "api/migration/kube_proxy_process.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/health/bind_address.h"
#include "api/process/directory.h"

namespace svcmap::api {
namespace {

namespace fs = std::filesystem;

// kube-proxy's ports for /healthz and /metrics (S-250, S-267).
constexpr std::array<uint16_t, 2> kPorts = {10256, 10249};
constexpr char kListening[] = "0A";  // TCP_LISTEN in /proc/net/tcp.

// Returns the target of a symbolic link, or "" if the link cannot be read.
std::string LinkOf(const fs::path& path) {
  std::error_code error;
  return fs::read_symlink(path, error).string();
}

// Identifies a network namespace without the privileges that /proc/PID/ns/net requires: each
// namespace has its own files in /proc/PID/net (Linux 6.18). Returns 0 if the process has
// exited.
ino_t NetworkNamespaceOf(const fs::path& process) {
  struct stat file = {};
  return stat((process / "net/dev").c_str(), &file) == 0 ? file.st_ino : 0;
}

std::string FirstWord(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

std::vector<fs::path> Processes() {
  std::vector<fs::path> processes = EntriesOf("/proc");
  std::erase_if(processes, [](const fs::path& path) {
    return std::isdigit(static_cast<unsigned char>(path.filename().string()[0])) == 0;
  });
  return processes;
}

// Maps each socket that listens on one of kPorts, such as "socket:[4711]", to its port. A line of
// /proc/net/tcp contains a number, the local ADDRESS:PORT in hexadecimal, the remote address, the
// state, and the inode as its tenth word.
std::map<std::string, uint16_t> Listeners() {
  std::map<std::string, uint16_t> listeners;
  for (const char* path : {"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"}) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state, skipped, inode;
      words >> number >> local >> remote >> state;
      if (state != kListening) continue;
      for (int i = 0; i < 5; ++i) words >> skipped;
      words >> inode;
      const size_t colon = local.find(':');
      uint16_t port = 0;
      if (colon == std::string::npos) continue;
      std::from_chars(local.data() + colon + 1, local.data() + local.size(), port, 16);
      if (std::find(kPorts.begin(), kPorts.end(), port) != kPorts.end()) {
        listeners[absl::StrCat("socket:[", inode, "]")] = port;
      }
    }
  }
  return listeners;
}

}  // namespace

std::string FindKubeProxy() {
  std::map<std::string, uint16_t> listeners = Listeners();
  const ino_t ours = NetworkNamespaceOf("/proc/thread-self");
  for (const fs::path& process : Processes()) {
    const std::string comm = FirstWord(process / "comm");
    // Ignores kube-proxies in other network namespaces, such as kind nodes on this machine.
    if (comm == "kube-proxy" && NetworkNamespaceOf(process) == ours) {
      return absl::StrCat("process ", process.filename().string(), " is kube-proxy");
    }
    if (listeners.empty() || !comm.starts_with("svcmap")) continue;
    for (const fs::path& fd : EntriesOf(process / "fd")) listeners.erase(LinkOf(fd));
  }
  if (listeners.empty()) return "";
  return absl::StrCat("port ", listeners.begin()->second,
                      " is in use by another process, probably kube-proxy");
}

bool HasIpvsInterface() { return if_nametoindex(kIpvsInterface) != 0; }

bool HasVirtualServers() {
  std::ifstream servers("/proc/thread-self/net/ip_vs");
  int lines = 0;
  for (std::string line; std::getline(servers, line);) ++lines;
  constexpr int kHeading = 3;
  return lines > kHeading;
}

// Parses lines of /proc/net/dev such as "  eth0: 1 2 3".
std::vector<std::string> InterfaceNames() {
  std::ifstream file("/proc/thread-self/net/dev");
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    const size_t start = line.find_first_not_of(' ');
    const size_t colon = line.find(':');
    if (colon != std::string::npos) names.push_back(line.substr(start, colon - start));
  }
  return names;
}

std::vector<InterfaceAddress> InterfaceAddresses() {
  std::vector<InterfaceAddress> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const auto address = IpAddressOf(entry->ifa_addr);
    const auto mask = IpAddressOf(entry->ifa_netmask);
    if (!address || !mask) continue;
    int length = 0;
    for (const uint8_t byte : mask->bytes()) length += std::popcount(byte);
    addresses.push_back({*address, static_cast<uint8_t>(length), entry->ifa_name});
  }
  freeifaddrs(list);
  return addresses;
}

}  // namespace svcmap::api
