// Lists the fields of KubeProxyConfiguration: the path in the file, the struct member, and whether
// the field is used. Parsing, defaults and findings use this list.
#pragma once

#include <cstdint>
#include <string_view>

#include "api/config/kube_proxy_config.h"

namespace svcmap::api {

enum class Use : uint8_t {
  kUsed,    // svcmapd or svcmap-kube uses the field.
  kUnused,  // The field is not used. A value other than the default is reported as a finding.
};

// Calls visit(path, member, use) for every field.
template <typename Config, typename Visit>
void VisitConfigurationFields(Config& c, Visit&& visit) {
  visit("mode", c.mode, Use::kUnused);
  visit("featureGates", c.feature_gates, Use::kUnused);
  visit("clientConnection.kubeconfig", c.client_connection.kubeconfig, Use::kUsed);
  visit("clientConnection.acceptContentTypes", c.client_connection.accept_content_types,
        Use::kUnused);
  visit("clientConnection.contentType", c.client_connection.content_type, Use::kUnused);
  visit("clientConnection.qps", c.client_connection.qps, Use::kUnused);
  visit("clientConnection.burst", c.client_connection.burst, Use::kUnused);
  visit("logging.format", c.logging.format, Use::kUnused);
  visit("logging.flushFrequency", c.logging.flush_frequency, Use::kUnused);
  visit("logging.verbosity", c.logging.verbosity, Use::kUsed);
  visit("logging.vmodule", c.logging.vmodule, Use::kUnused);
  visit("logging.options.text.splitStream", c.logging.text_split_stream, Use::kUnused);
  visit("logging.options.text.infoBufferSize", c.logging.text_info_buffer_size, Use::kUnused);
  visit("logging.options.json.splitStream", c.logging.json_split_stream, Use::kUnused);
  visit("logging.options.json.infoBufferSize", c.logging.json_info_buffer_size, Use::kUnused);
  visit("hostnameOverride", c.hostname_override, Use::kUsed);
  visit("bindAddress", c.bind_address, Use::kUnused);
  visit("healthzBindAddress", c.healthz_bind_address, Use::kUsed);
  visit("metricsBindAddress", c.metrics_bind_address, Use::kUsed);
  visit("bindAddressHardFail", c.bind_address_hard_fail, Use::kUsed);
  visit("enableProfiling", c.enable_profiling, Use::kUnused);
  visit("showHiddenMetricsForVersion", c.show_hidden_metrics_for_version, Use::kUnused);
  visit("nftables.masqueradeBit", c.nftables.masquerade_bit, Use::kUsed);
  visit("nftables.masqueradeAll", c.nftables.masquerade_all, Use::kUsed);
  visit("nftables.syncPeriod", c.nftables.sync_period, Use::kUsed);
  visit("nftables.minSyncPeriod", c.nftables.min_sync_period, Use::kUnused);
  visit("iptables.masqueradeBit", c.iptables.masquerade_bit, Use::kUnused);
  visit("iptables.masqueradeAll", c.iptables.masquerade_all, Use::kUnused);
  visit("iptables.localhostNodePorts", c.iptables.localhost_node_ports, Use::kUnused);
  visit("iptables.snatNodeInternalIP", c.iptables.snat_node_internal_ip, Use::kUnused);
  visit("iptables.syncPeriod", c.iptables.sync_period, Use::kUnused);
  visit("iptables.minSyncPeriod", c.iptables.min_sync_period, Use::kUnused);
  visit("ipvs.syncPeriod", c.ipvs.sync_period, Use::kUnused);
  visit("ipvs.minSyncPeriod", c.ipvs.min_sync_period, Use::kUnused);
  visit("ipvs.scheduler", c.ipvs.scheduler, Use::kUnused);
  visit("ipvs.excludeCIDRs", c.ipvs.exclude_cidrs, Use::kUnused);
  visit("ipvs.strictARP", c.ipvs.strict_arp, Use::kUnused);
  visit("ipvs.tcpTimeout", c.ipvs.tcp_timeout, Use::kUnused);
  visit("ipvs.tcpFinTimeout", c.ipvs.tcp_fin_timeout, Use::kUnused);
  visit("ipvs.udpTimeout", c.ipvs.udp_timeout, Use::kUnused);
  visit("winkernel.networkName", c.winkernel.network_name, Use::kUnused);
  visit("winkernel.sourceVip", c.winkernel.source_vip, Use::kUnused);
  visit("winkernel.enableDSR", c.winkernel.enable_dsr, Use::kUnused);
  visit("winkernel.rootHnsEndpointName", c.winkernel.root_hns_endpoint_name, Use::kUnused);
  visit("winkernel.forwardHealthCheckVip", c.winkernel.forward_health_check_vip, Use::kUnused);
  visit("detectLocalMode", c.detect_local_mode, Use::kUsed);
  visit("detectLocal.bridgeInterface", c.detect_local.bridge_interface, Use::kUsed);
  visit("detectLocal.interfaceNamePrefix", c.detect_local.interface_name_prefix, Use::kUsed);
  visit("clusterCIDR", c.cluster_cidr, Use::kUsed);
  visit("nodePortAddresses", c.node_port_addresses, Use::kUsed);
  visit("oomScoreAdj", c.oom_score_adj, Use::kUsed);
  visit("conntrack.maxPerCore", c.conntrack.max_per_core, Use::kUsed);
  visit("conntrack.min", c.conntrack.min, Use::kUsed);
  visit("conntrack.tcpEstablishedTimeout", c.conntrack.tcp_established_timeout, Use::kUsed);
  visit("conntrack.tcpCloseWaitTimeout", c.conntrack.tcp_close_wait_timeout, Use::kUsed);
  visit("conntrack.tcpBeLiberal", c.conntrack.tcp_be_liberal, Use::kUsed);
  visit("conntrack.udpTimeout", c.conntrack.udp_timeout, Use::kUsed);
  visit("conntrack.udpStreamTimeout", c.conntrack.udp_stream_timeout, Use::kUsed);
  visit("configSyncPeriod", c.config_sync_period, Use::kUnused);
  visit("portRange", c.port_range, Use::kUnused);
  visit("windowsRunAsService", c.windows_run_as_service, Use::kUnused);
}

// The parts of ReadKubeProxyConfiguration that have their own files.

// Sets the fields of `result.config` that `text` contains. Adds syntax and type errors to `result`.
// Does not apply defaults and does not check ranges.
void ReadConfigurationFields(std::string_view text, ReadConfiguration& result);

// Replaces 0 and "" with kube-proxy's defaults in fields for which these values mean the default.
// Adds the default port to addresses without a port.
void ApplyConfigurationDefaults(KubeProxyConfiguration& config);

// Adds an error to `result.errors` for each invalid value.
void CheckConfiguration(ReadConfiguration& result);

}  // namespace svcmap::api
