#include "api/config/fields.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "api/config/detect_local.h"
#include "api/config/go_duration.h"
#include "api/convert/quote.h"
#include "api/health/bind_address.h"
#include "nft/types/ip_address.h"
#include "proxy/node/nodeport_addresses.h"

namespace svcmap::api {
namespace {

using Duration = KubeProxyConfiguration::Duration;
using std::chrono::minutes;
using std::chrono::seconds;

void Default(std::string& value, const std::string& other) {
  if (value.empty()) value = other;
}

void Default(Duration& value, Duration other) {
  if (value == value.zero()) value = other;
}

// Replaces zero in any notation, such as 0, "0s" or "0m", with "", which means the default.
void Default(AnyScalar& value) {
  if (value.text == "0" || ParseGoDuration(value.text) == Duration::zero()) value.text.clear();
}

void AppendPort(std::string& address, uint16_t port) {
  if (const auto at = BindAddress::Parse(address, port); at.ok()) address = at->ToString();
}

class Checker {
 public:
  explicit Checker(ReadConfiguration& result) : c_(result.config), errors_(result.errors) {}

  void All() {
    OneOf("mode", c_.mode, {"", "iptables", "ipvs", "nftables"});
    NotNegative("clientConnection.burst", c_.client_connection.burst);
    OneOf("logging.format", c_.logging.format, {"text", "json"});
    NotNegative("logging.verbosity", c_.logging.verbosity);
    if (!IpAddress::Parse(c_.bind_address)) {
      Error("bindAddress", Quote(c_.bind_address), "must be an IP address");
    }
    if (!c_.hostname_override.empty() && absl::StripAsciiWhitespace(c_.hostname_override).empty()) {
      Error("hostnameOverride", Quote(c_.hostname_override), "must not be blank");
    }
    Listener("healthzBindAddress", c_.healthz_bind_address);
    Listener("metricsBindAddress", c_.metrics_bind_address);
    MinorVersion("showHiddenMetricsForVersion", c_.show_hidden_metrics_for_version);
    Range("nftables.masqueradeBit", c_.nftables.masquerade_bit, 0, 31);
    Range("iptables.masqueradeBit", c_.iptables.masquerade_bit, 0, 31);
    SyncPeriods();
    if (OneOf("detectLocalMode", c_.detect_local_mode,
              {kClusterCidrMode, kNodeCidrMode, kBridgeMode, kPrefixMode})) {
      DetectLocal();
    }
    NodePortAddresses();
    Range("oomScoreAdj", c_.oom_score_adj, -1000, 1000);
    NotNegative("conntrack.maxPerCore", c_.conntrack.max_per_core);
    NotNegative("conntrack.min", c_.conntrack.min);
    NotNegative("conntrack.tcpEstablishedTimeout", c_.conntrack.tcp_established_timeout);
    NotNegative("conntrack.tcpCloseWaitTimeout", c_.conntrack.tcp_close_wait_timeout);
    NotNegative("conntrack.udpTimeout", c_.conntrack.udp_timeout);
    NotNegative("conntrack.udpStreamTimeout", c_.conntrack.udp_stream_timeout);
    Positive("configSyncPeriod", c_.config_sync_period);
  }

 private:
  void Error(std::string_view path, const std::string& value, const std::string& expected) {
    errors_.push_back(absl::StrCat(std::string(path), ": Invalid value: ", value, ": ", expected));
  }

  void Range(std::string_view path, int32_t value, int32_t low, int32_t high) {
    if (value < low || value > high)
      Error(path, absl::StrCat(value),
            absl::StrCat("must be between ", low, " and ", high, ", inclusive"));
  }
  void NotNegative(std::string_view path, int32_t value) {
    if (value < 0) Error(path, absl::StrCat(value), "must be greater than or equal to 0");
  }
  void NotNegative(std::string_view path, Duration value) {
    if (value < value.zero())
      Error(path, FormatGoDuration(value), "must be greater than or equal to 0s");
  }
  void Positive(std::string_view path, Duration value) {
    if (value <= value.zero()) Error(path, FormatGoDuration(value), "must be greater than 0s");
  }

  bool OneOf(std::string_view path, const std::string& value,
             std::initializer_list<std::string_view> allowed) {
    if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return true;
    std::string list;
    for (const std::string_view item : allowed) {
      absl::StrAppend(&list, list.empty() ? "" : ", ", Quote(item));
    }
    errors_.push_back(absl::StrCat(std::string(path), ": Unsupported value: ", Quote(value),
                                   ": supported values: ", list));
    return false;
  }

  void Listener(std::string_view path, const std::string& value) {
    if (!BindAddress::Parse(value, 1).ok()) {
      Error(path, Quote(value), "must be an IP address with a port, such as \"0.0.0.0:10256\"");
    }
  }

  void MinorVersion(std::string_view path, std::string_view value) {
    const auto digits = [](std::string_view text) {
      return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
    };
    const size_t dot = value.find('.');
    if (value.empty() || (dot != std::string_view::npos && digits(value.substr(0, dot)) &&
                          digits(value.substr(dot + 1)))) {
      return;
    }
    Error(path, Quote(value), "must be a minor version, such as \"1.35\"");
  }

  void SyncPeriods() {
    const auto& n = c_.nftables;
    Positive("nftables.syncPeriod", n.sync_period);
    NotNegative("nftables.minSyncPeriod", n.min_sync_period);
    if (n.sync_period > n.sync_period.zero() && n.min_sync_period > n.sync_period) {
      Error("nftables.minSyncPeriod", FormatGoDuration(n.min_sync_period),
            absl::StrCat("must be less than or equal to nftables.syncPeriod (",
                         FormatGoDuration(n.sync_period), ")"));
    }
  }

  void DetectLocal() {
    const auto parsed = ParseDetectLocal(
        {c_.detect_local_mode, c_.cluster_cidr, c_.detect_local.bridge_interface,
         c_.detect_local.interface_name_prefix},
        {"clusterCIDR", "detectLocal.bridgeInterface", "detectLocal.interfaceNamePrefix"});
    if (!parsed.ok()) errors_.push_back(std::string(parsed.status().message()));
  }

  void NodePortAddresses() {
    for (const std::string& item : c_.node_port_addresses) {
      if (!proxy::IsNodePortAddress(item)) {
        Error("nodePortAddresses", Quote(item), proxy::kNodePortAddressDetail);
      }
    }
  }

  const KubeProxyConfiguration& c_;
  std::vector<std::string>& errors_;
};

}  // namespace

void ApplyConfigurationDefaults(KubeProxyConfiguration& c) {
  Default(c.bind_address, "0.0.0.0");
  const std::optional<IpAddress> own = IpAddress::Parse(c.bind_address);
  const bool v6 = own && own->family() == Family::kIpv6;
  Default(c.healthz_bind_address, v6 ? "::" : "0.0.0.0");
  Default(c.metrics_bind_address, v6 ? "::1" : "127.0.0.1");
  AppendPort(c.healthz_bind_address, kHealthzPort);
  AppendPort(c.metrics_bind_address, kMetricsPort);
  Default(c.client_connection.content_type, "application/vnd.kubernetes.protobuf");
  if (c.client_connection.qps == 0) c.client_connection.qps = 5;
  if (c.client_connection.burst == 0) c.client_connection.burst = 10;
  Default(c.logging.format, "text");
  Default(c.logging.flush_frequency);
  Default(c.logging.text_info_buffer_size);
  Default(c.logging.json_info_buffer_size);
  Default(c.nftables.sync_period, seconds(30));
  Default(c.nftables.min_sync_period, seconds(1));
  Default(c.iptables.sync_period, seconds(30));
  Default(c.iptables.min_sync_period, seconds(1));
  Default(c.ipvs.sync_period, seconds(30));
  Default(c.detect_local_mode, kClusterCidrMode);
  Default(c.config_sync_period, minutes(15));
}

void CheckConfiguration(ReadConfiguration& result) { Checker(result).All(); }

}  // namespace svcmap::api
