#include "proxy/names/kube_names.h"

#include <gtest/gtest.h>

#include "tests/support/kube_nftables_names.h"
#include "tests/unit/proxy/objects.h"

namespace svcmap::proxy {
namespace {

using test::Ip;
using test::KubeChainName;
using test::KubeEndpointChainName;

TEST(KubeNamesTest, S204ToS211ServiceChainsHaveKubeProxysHash) {
  const struct {
    const char* number;
    const char* service;
    const char* port;
    Protocol protocol;
    const char* hash;
  } cases[] = {
      {"S-204", "kube-system/kube-dns", "dns", Protocol::kUdp, "TCOU7JCQXEZGVUNU"},
      {"S-205", "kube-system/kube-dns", "dns-tcp", Protocol::kTcp, "ERIFXISQEP7F7OF4"},
      {"S-206", "kube-system/kube-dns", "metrics", Protocol::kTcp, "JD5MR3NA4I4DYORP"},
      {"S-207", "default/kubernetes", "https", Protocol::kTcp, "NPX46M4PTMTKRN6Y"},
      {"S-208", "ns1/svc1", "p80", Protocol::kTcp, "XPGD46QRK7WJZT7O"},
      {"S-210", "shop/web", "", Protocol::kTcp, "E3PXEPMWAWIUT6ZV"},
      {"S-211", "shop/web", "", Protocol::kSctp, "QBYPUWQGBX7LZEE2"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(KubeServiceHash(c.service, c.port, c.protocol), c.hash) << c.number;
  }
}

TEST(KubeNamesTest, S209_S212_S213_S214_EndpointChainsHaveKubeProxysHash) {
  const struct {
    const char* number;
    const char* service;
    const char* port;
    EndpointAddress endpoint;
    const char* hash;
  } cases[] = {
      {"S-209", "ns1/svc1", "p80", {Ip("10.180.0.1"), 80}, "SXIVWICOYRO3J4NJ"},
      {"S-212", "shop/web", "", {Ip("10.64.1.5"), 8080}, "REGSAMVERWV4AOOM"},
      {"S-213", "shop/web", "http", {Ip("fd00:db8:0::7"), 8080}, "6IRDXO4Z6CJFPQTR"},
      {"S-214", "default/kubernetes", "https", {Ip("192.0.2.10"), 6443}, "O7UXPAIOQA4W54LS"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(KubeEndpointHash(c.service, c.port, Protocol::kTcp, c.endpoint), c.hash) << c.number;
  }
}

TEST(KubeNamesTest, S203OnlyIpv6EndpointsAreBracketed) {
  EXPECT_EQ(Ip("10.0.0.1").WithPort(80), "10.0.0.1:80");
  EXPECT_EQ(Ip("fd00::1").WithPort(80), "[fd00::1]:80");
}

TEST(KubeNamesTest, S140_NftablesNames) {
  EXPECT_EQ(KubeChainName("testing/service", "http", Protocol::kTcp),
            "P4ZYZVCF-testing/service/tcp/http");
  EXPECT_EQ(KubeChainName("shop/web", "", Protocol::kTcp), "452DNVGS-shop/web/tcp/");
  // Chain names as observed on a node with Kubernetes 1.36.2.
  EXPECT_EQ(KubeChainName("default/kubernetes", "https", Protocol::kTcp),
            "2QRHZV4L-default/kubernetes/tcp/https");
  EXPECT_EQ(
      KubeEndpointChainName("testing/service", "http", Protocol::kTcp, {Ip("10.180.0.1"), 80}),
      "JO2XBXZR-testing/service/tcp/http__10.180.0.1/80");
  EXPECT_EQ(KubeEndpointChainName("shop/web", "http", Protocol::kTcp, {Ip("fd00:db8::7"), 8080}),
            "N2KAW5BL-shop/web/tcp/http__fd00.db8..7/8080");
}

TEST(KubeNamesTest, S140_LongNftablesNamesAreCut) {
  const std::string name = KubeChainName("ns/" + std::string(240, 'x'), "http", Protocol::kTcp);
  EXPECT_EQ(name.size(), 240U);
  EXPECT_TRUE(name.ends_with("x...")) << name;
}

}  // namespace
}  // namespace svcmap::proxy
