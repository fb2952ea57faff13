// Fuzzes ReadKubeProxyConfiguration with arbitrary text. Accepted values must be in range, and
// error messages must be short and printable.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/config/detect_local.h"
#include "api/config/go_duration.h"
#include "api/config/kube_proxy_config.h"
#include "api/daemon/kernel.h"
#include "api/health/bind_address.h"
#include "api/log/printable.h"

namespace svcmap::api {
namespace {

constexpr size_t kMaxLineBytes = 2000;

void RequireThat(bool holds) {
  if (!holds) __builtin_trap();
}

void CheckLines(const std::vector<std::string>& lines) {
  RequireThat(lines.size() <= kMaxConfigurationLines);
  for (const std::string& line : lines) {
    RequireThat(!line.empty() && line.size() <= kMaxLineBytes);
    for (size_t i = 0; i < line.size();) {
      const size_t length = Utf8Length(std::string_view(line).substr(i));
      RequireThat(length > 0 && line[i] != '\n');
      i += length;
    }
  }
}

void CheckAccepted(const KubeProxyConfiguration& c) {
  RequireThat(c.nftables.masquerade_bit >= 0 && c.nftables.masquerade_bit <= 31);
  RequireThat(c.nftables.sync_period > c.nftables.sync_period.zero());
  RequireThat(c.oom_score_adj >= -1000 && c.oom_score_adj <= 1000);
  RequireThat(BindAddress::Parse(c.healthz_bind_address, 0).ok());
  RequireThat(BindAddress::Parse(c.metrics_bind_address, 0).ok());
  RequireThat(
      ParseDetectLocal({c.detect_local_mode, c.cluster_cidr, c.detect_local.bridge_interface,
                        c.detect_local.interface_name_prefix})
          .ok());
  for (const Sysctl& sysctl : DesiredSysctls(c, 4096)) RequireThat(sysctl.value > 0);
}

}  // namespace
}  // namespace svcmap::api

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace svcmap::api;
  if (size > 1 << 18) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const ReadConfiguration read = ReadKubeProxyConfiguration(text);
  CheckLines(read.findings);
  CheckLines(read.errors);
  if (read.errors.empty()) CheckAccepted(read.config);
  if (const auto duration = ParseGoDuration(text)) {
    RequireThat(ParseGoDuration(FormatGoDuration(*duration)) == duration);
  }
  return 0;
}
