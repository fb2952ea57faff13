// kube-proxy's configuration file: KubeProxyConfiguration of kubeproxy.config.k8s.io/v1alpha1, as
// in kubeadm's ConfigMap kube-proxy. All functions except ReadConfigurationFile are pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace svcmap::api {

inline constexpr char kConfigurationApiVersion[] = "kubeproxy.config.k8s.io/v1alpha1";
inline constexpr char kConfigurationKind[] = "KubeProxyConfiguration";
inline constexpr uint16_t kHealthzPort = 10256;  // Default port of /healthz (S-295).
inline constexpr uint16_t kMetricsPort = 10249;  // Default port of /metrics (S-296).

// Feature gate whose value false disables spec.externalIPs of Services (S-6). The default is true.
inline constexpr char kExternalIpsGate[] = "AllowServiceExternalIPs";

// Feature gate whose value false disables nodePorts on loopback addresses (S-113). The default is
// true.
inline constexpr char kLocalhostNodePortsGate[] = "KubeProxyNFTablesLocalhostNodePorts";

// A scalar of any type, in the notation of the file.
struct AnyScalar {
  std::string text;
};

// A list or map whose content is not parsed.
struct Unread {
  bool set = false;  // True if the list or map is not empty.
};

// All fields of the configuration file. A field that the file omits has kube-proxy's default. In
// some fields, 0 or "" also means the default.
struct KubeProxyConfiguration {
  using Duration = std::chrono::nanoseconds;

  // Only kExternalIpsGate and kLocalhostNodePortsGate have an effect.
  std::map<std::string, bool> feature_gates;
  struct {
    std::string kubeconfig;
    std::string accept_content_types;
    std::string content_type;
    double qps = 0;
    int32_t burst = 0;
  } client_connection;
  struct {
    std::string format;
    AnyScalar flush_frequency;
    int32_t verbosity = 0;
    Unread vmodule;
    bool text_split_stream = false;
    AnyScalar text_info_buffer_size;
    bool json_split_stream = false;
    AnyScalar json_info_buffer_size;
  } logging;
  std::string hostname_override;
  std::string bind_address;
  std::string healthz_bind_address;  // Address and port.
  std::string metrics_bind_address;  // Address and port.
  bool bind_address_hard_fail = false;
  bool enable_profiling = false;
  std::string show_hidden_metrics_for_version;
  std::string mode;
  struct {
    int32_t masquerade_bit = 14;
    bool masquerade_all = false;
    bool localhost_node_ports = true;
    bool snat_node_internal_ip = false;
    Duration sync_period{0};
    Duration min_sync_period{0};
  } iptables;
  struct {
    Duration sync_period{0};
    Duration min_sync_period{0};
    std::string scheduler;
    std::vector<std::string> exclude_cidrs;
    bool strict_arp = false;
    Duration tcp_timeout{0};
    Duration tcp_fin_timeout{0};
    Duration udp_timeout{0};
  } ipvs;
  struct {
    int32_t masquerade_bit = 14;
    bool masquerade_all = false;
    Duration sync_period{0};
    Duration min_sync_period{0};
  } nftables;
  struct {
    std::string network_name;
    std::string source_vip;
    bool enable_dsr = false;
    std::string root_hns_endpoint_name;
    bool forward_health_check_vip = false;
  } winkernel;
  std::string detect_local_mode;
  struct {
    std::string bridge_interface;
    std::string interface_name_prefix;
  } detect_local;
  std::string cluster_cidr;
  std::vector<std::string> node_port_addresses;
  int32_t oom_score_adj = -999;
  struct {
    int32_t max_per_core = 32768;
    int32_t min = 131072;
    Duration tcp_established_timeout = std::chrono::hours(24);
    Duration tcp_close_wait_timeout = std::chrono::hours(1);
    bool tcp_be_liberal = false;
    Duration udp_timeout{0};
    Duration udp_stream_timeout{0};
  } conntrack;
  Duration config_sync_period{0};
  std::string port_range;
  bool windows_run_as_service = false;
};

struct ReadConfiguration {
  KubeProxyConfiguration config;  // Valid only if `errors` is empty.
  // Each list has at most kMaxConfigurationLines lines, and each line names a field. `findings`
  // contains unknown fields, duplicate fields and fields without effect in svcmapd. If a field
  // occurs several times, its last value is used. `errors` contains the fields with invalid values.
  std::vector<std::string> findings;
  std::vector<std::string> errors;
};

inline constexpr size_t kMaxConfigurationLines = 100;

// Parses YAML or JSON. Unknown and duplicate fields are findings, not errors, as in kube-proxy
// (S-319). Uses only the first YAML document.
ReadConfiguration ReadKubeProxyConfiguration(std::string_view text);

// Returns a YAML file with the default of every field.
std::string WriteDefaultConfiguration();

// Returns the path of every field, such as "conntrack.min", with its default in the notation of the
// file, and in the order of docs/configuration.md.
std::vector<std::pair<std::string, std::string>> ConfigurationDefaults();

// Returns {"kubeproxy.config.k8s.io": {...}} with all fields, including defaults.
std::string ConfigzText(const KubeProxyConfiguration& config);

struct ConfigurationFile {
  std::string path;
  std::string text;  // The content of the file.
  KubeProxyConfiguration config;
  std::vector<std::string> findings;  // Findings to log.
};

// The returned status contains one line per error. Each line begins with the path of the file.
absl::StatusOr<ConfigurationFile> ReadConfigurationFile(const std::string& path);

}  // namespace svcmap::api
