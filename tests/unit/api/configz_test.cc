#include "api/config/kube_proxy_config.h"

#include <gtest/gtest.h>

namespace svcmap::api {
namespace {

TEST(ConfigzTest, S267_ItIsTheFileWithItsDefaultsAsJson) {
  const ReadConfiguration read = ReadKubeProxyConfiguration(
      "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
      "mode: nftables\nnftables: {syncPeriod: 90s, masqueradeAll: true}\n"
      "nodePortAddresses: [192.0.2.0/24]\nfeatureGates: {Odd: true}\n");
  ASSERT_TRUE(read.errors.empty());
  const std::string text = ConfigzText(read.config);
  EXPECT_TRUE(text.starts_with(R"({"kubeproxy.config.k8s.io":{"bindAddress":)")) << text;
  for (const char* part :
       {R"("mode":"nftables")", R"("syncPeriod":"1m30s")", R"("masqueradeAll":true)",
        R"("nodePortAddresses":["192.0.2.0/24"])", R"("featureGates":{"Odd":true})",
        R"("metricsBindAddress":"127.0.0.1:10249")", R"("oomScoreAdj":-999)"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
}

}  // namespace
}  // namespace svcmap::api
