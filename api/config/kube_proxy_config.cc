#include "api/config/kube_proxy_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "api/config/fields.h"
#include "api/config/go_duration.h"
#include "api/convert/quote.h"
#include "api/manifests/manifests.h"
#include "nft/base/status.h"
#include "nft/types/ip_address.h"

namespace svcmap::api {
namespace {

std::string Show(const std::string& value) { return Quote(value); }
std::string Show(bool value) { return value ? "true" : "false"; }
std::string Show(int32_t value) { return absl::StrCat(value); }
std::string Show(double value) { return absl::StrCat(value); }
std::string Show(KubeProxyConfiguration::Duration value) { return FormatGoDuration(value); }
std::string Show(const AnyScalar& value) { return Quote(value.text); }
std::string Show(const Unread& value) { return value.set ? "a value" : "null"; }
std::string Show(const std::vector<std::string>& value) {
  std::string text;
  for (const std::string& item : value) {
    if (text.size() > kMaxQuotedBytes) return "[" + text + ", ...]";
    absl::StrAppend(&text, text.empty() ? "" : ", ", Quote(item));
  }
  return "[" + text + "]";
}
std::string Show(const std::map<std::string, bool>& value) {
  std::string text;
  for (const auto& [name, on] : value) {
    if (text.size() > kMaxQuotedBytes) return "{" + text + ", ...}";
    absl::StrAppend(&text, text.empty() ? "" : ", ", Escape(name), ": ", Show(on));
  }
  return "{" + text + "}";
}

struct ShownField {
  std::string path;
  std::string value;
  Use use;
};

std::vector<ShownField> ShowFields(const KubeProxyConfiguration& config) {
  std::vector<ShownField> fields;
  VisitConfigurationFields(config, [&](const char* path, const auto& member, Use use) {
    fields.push_back({path, Show(member), use});
  });
  return fields;
}

KubeProxyConfiguration DefaultConfiguration() {
  KubeProxyConfiguration config;
  ApplyConfigurationDefaults(config);
  return config;
}

// Returns the reason why a field has no effect, or "".
std::string_view Because(std::string_view path) {
  if (path == "mode") return ": svcmapd always behaves like kube-proxy in mode nftables";
  if (path == "iptables.masqueradeAll") return ": set nftables.masqueradeAll instead";
  if (path == "iptables.masqueradeBit") return ": set nftables.masqueradeBit instead";
  if (path == "bindAddress") return ": svcmapd uses the addresses of the Node object";
  if (path == "clientConnection.acceptContentTypes" || path == "clientConnection.contentType") {
    return ": svcmap-kube always requests application/vnd.kubernetes.protobuf";
  }
  if (path == "nftables.minSyncPeriod") return ": svcmapd programs changes immediately";
  return "";
}

void FindUnused(ReadConfiguration& result) {
  KubeProxyConfiguration config = result.config;
  config.feature_gates.erase(kExternalIpsGate);
  config.feature_gates.erase(kLocalhostNodePortsGate);
  const std::vector<ShownField> fields = ShowFields(config);
  const std::vector<ShownField> defaults = ShowFields(DefaultConfiguration());
  for (size_t i = 0; i < fields.size(); ++i) {
    const auto& [path, value, use] = fields[i];
    if (use != Use::kUnused || value == defaults[i].value) continue;
    if (path == "mode" && config.mode == "nftables") continue;
    if (path == "bindAddress" && IpAddress::Parse(config.bind_address)->IsUnspecified()) continue;
    result.findings.push_back(
        absl::StrCat(path, ": value ", value, " has no effect", std::string(Because(path))));
  }
  if (config.mode != "nftables" && config.node_port_addresses.empty()) {
    result.findings.push_back(
        "nodePortAddresses: not set: node ports are accepted on the primary addresses of the node, "
        "as in kube-proxy's mode nftables; kube-proxy's other modes accept node ports on all "
        "addresses");
  }
}

void Limit(std::vector<std::string>& lines) {
  if (lines.size() <= kMaxConfigurationLines) return;
  const size_t more = lines.size() - kMaxConfigurationLines + 1;
  lines.resize(kMaxConfigurationLines);
  lines.back() = absl::StrCat("and ", more, " more");
}

using SortedJson = nlohmann::json;

template <typename Value>
void Put(SortedJson& field, const Value& value) {
  field = value;
}
void Put(SortedJson& field, const KubeProxyConfiguration::Duration& value) {
  field = FormatGoDuration(value);
}
void Put(SortedJson& field, const AnyScalar& value) { field = value.text; }
void Put(SortedJson& field, const Unread&) { field = nullptr; }

}  // namespace

ReadConfiguration ReadKubeProxyConfiguration(std::string_view text) {
  ReadConfiguration result;
  ReadConfigurationFields(text, result);
  ApplyConfigurationDefaults(result.config);
  CheckConfiguration(result);
  if (result.errors.empty()) FindUnused(result);
  Limit(result.findings);
  Limit(result.errors);
  return result;
}

std::string WriteDefaultConfiguration() {
  std::string text =
      absl::StrCat("apiVersion: ", kConfigurationApiVersion, "\nkind: ", kConfigurationKind, "\n");
  std::vector<std::string> open;  // The current section and its parents.
  for (const auto& [path, value] : ConfigurationDefaults()) {
    std::vector<std::string> sections = absl::StrSplit(path, '.');
    const std::string name = std::move(sections.back());
    sections.pop_back();
    const auto [same, other] =
        std::mismatch(open.begin(), open.end(), sections.begin(), sections.end());
    for (auto section = other; section != sections.end(); ++section) {
      const auto depth = static_cast<size_t>(section - sections.begin());
      absl::StrAppend(&text, std::string(2 * depth, ' '), *section, ":\n");
    }
    absl::StrAppend(&text, std::string(2 * sections.size(), ' '), name, ": ", value, "\n");
    open = std::move(sections);
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> ConfigurationDefaults() {
  std::vector<std::pair<std::string, std::string>> defaults;
  for (ShownField& field : ShowFields(DefaultConfiguration())) {
    defaults.emplace_back(std::move(field.path), std::move(field.value));
  }
  return defaults;
}

std::string ConfigzText(const KubeProxyConfiguration& config) {
  SortedJson body;
  VisitConfigurationFields(config, [&](const char* path, const auto& member, Use) {
    Put(body[SortedJson::json_pointer("/" + absl::StrReplaceAll(path, {{".", "/"}}))], member);
  });
  return SortedJson{{"kubeproxy.config.k8s.io", std::move(body)}}.dump();
}

absl::StatusOr<ConfigurationFile> ReadConfigurationFile(const std::string& path) {
  absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok()) return Annotate(text.status(), "--config");
  ReadConfiguration read = ReadKubeProxyConfiguration(*text);
  if (!read.errors.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", absl::StrJoin(read.errors, "\n" + path + ": ")));
  }
  return ConfigurationFile{path, *std::move(text), std::move(read.config),
                           std::move(read.findings)};
}

}  // namespace svcmap::api
