// Tests that kubectl applies the manifests of deploy/kubernetes without errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_split.h"
#include "tests/support/api_server.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// Disable validation in kubectl, because the fake server does not validate values.
constexpr char kApplyAll[] = R"(
for overlay in base kubeadm kubeadm-sysctls side-by-side take-over push etcd cleanup; do
  kubectl kustomize "$0/$overlay" && echo ---
done | kubectl --kubeconfig="$1/kubeconfig" --cache-dir="$1/cache" apply --dry-run=client \
  --validate=false -f -)";

TEST(ManifestsTest, KubectlAppliesEveryOverlay) {
  ASSERT_OK_AND_ASSIGN(const auto server, FakeApiServer::Start());
  ASSERT_OK_AND_ASSIGN(const TemporaryFolder folder, TemporaryFolder::Make());
  ASSERT_OK(server->WriteKubeconfig(folder.path() + "/kubeconfig"));
  ASSERT_OK_AND_ASSIGN(const std::string applied,
                       RunOk({.argv = {"bash", "-euo", "pipefail", "-c", kApplyAll,
                                       SVCMAP_SOURCE_DIR "/deploy/kubernetes", folder.path()}}));
  std::map<std::string, int> created;
  for (const absl::string_view line : absl::StrSplit(applied, '\n', absl::SkipEmpty())) {
    ++created[std::string(line)];
  }
  EXPECT_THAT(
      created,
      ElementsAre(Pair("clusterrole.rbac.authorization.k8s.io/svcmap created (dry run)", 5),
                  Pair("clusterrolebinding.rbac.authorization.k8s.io/svcmap created (dry run)", 5),
                  Pair("configmap/svcmap created (dry run)", 4),
                  Pair("daemonset.apps/svcmap created (dry run)", 7),
                  Pair("daemonset.apps/svcmap-cleanup created (dry run)", 1),
                  Pair("serviceaccount/svcmap created (dry run)", 5)));
}

}  // namespace
}  // namespace svcmap::testing
