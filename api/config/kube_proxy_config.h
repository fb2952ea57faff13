// kube-proxy's configuration file, KubeProxyConfiguration of kubeproxy.config.k8s.io/v1alpha1, as
// kubeadm keeps it in the ConfigMap kube-proxy (docs/specification.md, 8.1). Pure: text in,
// settings out. What svcmapd does with them stands in api/daemon/config_options.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace svcmap::api {

inline constexpr char kConfigurationApiVersion[] = "kubeproxy.config.k8s.io/v1alpha1";
inline constexpr char kConfigurationKind[] = "KubeProxyConfiguration";
inline constexpr uint16_t kHealthzPort = 10256;  // S-295
inline constexpr uint16_t kMetricsPort = 10249;  // S-296

// A scalar of any type, as it was written.
struct AnyScalar {
  std::string text;
};

// A list or map whose content is not looked at.
struct Unread {
  bool set = false;  // And not empty.
};

// With kube-proxy's defaults for what the file does not say, or says as 0 or "" where that means
// the default.
struct KubeProxyConfiguration {
  using Duration = std::chrono::nanoseconds;

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
  std::string healthz_bind_address;  // With its port.
  std::string metrics_bind_address;  // Likewise.
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
  KubeProxyConfiguration config;  // Of use only where there are no errors.
  // Each names field and value and is a line. Findings: fields that are unknown or stand twice (of
  // those the last one counts), and what has no effect in svcmapd. Errors: what cannot be used and
  // what is allowed, all of them, but at most kMaxConfigurationLines.
  std::vector<std::string> findings;
  std::vector<std::string> errors;
};

inline constexpr size_t kMaxConfigurationLines = 100;

// YAML or JSON. Strict first; what is wrong with unknown and repeated fields alone is read
// nevertheless (S-319). Of several YAML documents the first counts.
ReadConfiguration ReadKubeProxyConfiguration(std::string_view text);

// A file that says every default, as YAML.
std::string WriteDefaultConfiguration();

// Every field by its path in the file, "conntrack.min", with its default as the file would say it;
// in the order of the documentation.
std::vector<std::pair<std::string, std::string>> ConfigurationDefaults();

}  // namespace svcmap::api
