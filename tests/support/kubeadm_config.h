// The file config.conf that kubeadm writes into kube-proxy's ConfigMap, by kubeadm's minor version.
// kubeadm writes every field that its version supports, and leaves most of them empty.
#pragma once

#include <string>

namespace svcmap::testing {

inline constexpr int kFirstKubeadm = 28;
inline constexpr int kLastKubeadm = 36;

inline std::string KubeadmConfig(int minor, const std::string& cluster_cidr = "10.244.0.0/16") {
  const auto since = [minor](int first, const std::string& text) {
    return minor >= first ? text : "";
  };
  return R"(apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  acceptContentTypes: ""
  burst: 0
  contentType: ""
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
  qps: 0
clusterCIDR: )" +
         cluster_cidr + R"(
configSyncPeriod: 0s
conntrack:
  maxPerCore: null
  min: null
)" + since(29, "  tcpBeLiberal: false\n") +
         R"(  tcpCloseWaitTimeout: null
  tcpEstablishedTimeout: null
)" + since(29, "  udpStreamTimeout: 0s\n  udpTimeout: 0s\n") +
         R"(detectLocal:
  bridgeInterface: ""
  interfaceNamePrefix: ""
detectLocalMode: ""
enableProfiling: false
healthzBindAddress: ""
hostnameOverride: ""
iptables:
  localhostNodePorts: null
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
ipvs:
  excludeCIDRs: null
  minSyncPeriod: 0s
  scheduler: ""
  strictARP: false
  syncPeriod: 0s
  tcpFinTimeout: 0s
  tcpTimeout: 0s
  udpTimeout: 0s
kind: KubeProxyConfiguration
logging:
  flushFrequency: 0
  options:
    json:
      infoBufferSize: "0"
)" + since(31, "    text:\n      infoBufferSize: \"0\"\n") +
         R"(  verbosity: 0
metricsBindAddress: ""
mode: ""
)" + since(29, R"(nftables:
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
)") + R"(nodePortAddresses: null
oomScoreAdj: null
portRange: ""
showHiddenMetricsForVersion: ""
winkernel:
  enableDSR: false
  forwardHealthCheckVip: false
  networkName: ""
  rootHnsEndpointName: ""
  sourceVip: ""
)";
}

}  // namespace svcmap::testing
