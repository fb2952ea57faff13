#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "api/kube/http/api_server.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::kube::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Returns a kubeconfig with the given fields of the cluster and of the user. Each argument contains
// one field per line.
std::string Kubeconfig(const std::string& cluster, const std::string& user) {
  const auto indent = [](std::string lines) {
    for (size_t at = 0; (at = lines.find('\n', at)) != std::string::npos; at += 5) {
      lines.replace(at, 1, "\n    ");
    }
    return "    " + lines + "\n";
  };
  return "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
         "contexts:\n- name: here\n  context: {cluster: c, user: u, namespace: shop}\n"
         "clusters:\n- name: c\n  cluster:\n" +
         indent(cluster) + "users:\n- name: u\n  user:\n" + indent(user);
}

constexpr char kServerField[] = "server: https://10.0.0.1:6443";

std::string KubeconfigError(const std::string& text) {
  const std::string message(ParseKubeconfig(text, "/etc/kube").status().message());
  EXPECT_THAT(message, Not(HasSubstr("secret")));
  return message;
}

TEST(KubeconfigTest, S290_EveryFieldArrives) {
  const auto server = ParseKubeconfig(
      Kubeconfig("server: https://10.0.0.1\ncertificate-authority: pki/ca.crt\n"
                 "tls-server-name: kubernetes\nproxy-url: socks5://proxy:1080\n"
                 "extensions: [{name: x}]",
                 "client-certificate-data: Y2VydA==\nclient-key-data: a2V5\nusername: me\n"
                 "password: \"1234\""),
      "/etc/kube");
  ASSERT_OK(server);
  EXPECT_EQ(server->url.ToString(), "https://10.0.0.1:443");
  EXPECT_EQ(server->tls_files.ca, "/etc/kube/pki/ca.crt");
  EXPECT_EQ(server->tls_server_name, "kubernetes");
  EXPECT_EQ(server->proxy.url, "socks5h://proxy:1080");
  EXPECT_EQ(server->proxy.name, "socks5://proxy:1080");
  EXPECT_EQ(server->tls_text.certificate, "cert");
  EXPECT_EQ(server->tls_text.key, "key");
  EXPECT_EQ(server->username, "me");
  EXPECT_EQ(server->password, "1234");

  const auto json = ParseKubeconfig(R"({"current-context": "a", "contexts": [
    {"name": "b", "context": {"cluster": "x"}}, {"name": "a", "context": {"cluster": "k"}}],
    "clusters": [{"name": "k", "cluster":
      {"server": "https://[fd00::1]:1/", "insecure-skip-tls-verify": true}}]})",
                                    "");
  ASSERT_OK(json);
  EXPECT_EQ(json->url.ToString(), "https://[fd00::1]:1");
  EXPECT_TRUE(json->insecure_skip_tls_verify);
  const auto with_data = ParseKubeconfig(
      Kubeconfig("server: https://k:1\ncertificate-authority-data: Q0EK", "token: a"), "");
  ASSERT_OK(with_data);
  EXPECT_EQ(with_data->tls_text.ca, "CA\n");
}

TEST(KubeconfigTest, S290_TheTokenFileCountsBeforeTheToken) {
  const auto server =
      ParseKubeconfig(Kubeconfig(kServerField, "token: old\ntokenFile: token"), "/etc/kube");
  ASSERT_OK(server);
  EXPECT_EQ(server->token, "");
  EXPECT_EQ(server->token_file, "/etc/kube/token");
}

TEST(KubeconfigTest, S290_WhatCannotBeUsedIsNamed) {
  const struct {
    const char* name;
    std::string text;
    std::string error;
  } cases[] = {
      {"exec", Kubeconfig(kServerField, "exec: {command: aws, args: [secret]}"),
       "users \"u\": exec (line 14): Forbidden: svcmap-kube does not run credential plugins. Use "
       "tokenFile"},
      {"auth-provider", Kubeconfig(kServerField, "auth-provider: {name: gcp}"),
       "users \"u\": auth-provider (line 14): Forbidden: svcmap-kube does not run credential "
       "plugins."},
      {"as", Kubeconfig(kServerField, "as: admin"),
       "users \"u\": as (line 14): Forbidden: impersonation is not supported"},
      {"no server", Kubeconfig("tls-server-name: a", "token: a"),
       "clusters \"c\": server: Required value: must be a URL, such as https://10.0.0.1:6443"},
      {"no scheme", Kubeconfig("server: 10.0.0.1:6443", "token: a"),
       "clusters \"c\": server: Invalid value: \"10.0.0.1:6443\""},
      {"clear text", Kubeconfig("server: http://10.0.0.1:6443", "token: a"),
       "clusters \"c\": server: Invalid value: \"http://10.0.0.1:6443\": must use https"},
      {"password in the URL", Kubeconfig("server: https://me:secret@10.0.0.1", "token: a"),
       "clusters \"c\": server: Invalid value: (hidden): must not contain a user name or password"},
      {"proxy", Kubeconfig(kServerField + std::string("\nproxy-url: me:secret@proxy"), "token: a"),
       "clusters \"c\": proxy-url (line 11): must be the URL of a proxy"},
      {"name", Kubeconfig(kServerField + std::string("\ntls-server-name: a/b"), "token: a"),
       "clusters \"c\": tls-server-name (line 11): Invalid value: \"a/b\": must be a host name or "
       "IP address"},
      {"base64", Kubeconfig(kServerField, "client-key-data: \"secret!\""),
       "users \"u\": client-key-data (line 14): must be valid base64"},
      {"key alone", Kubeconfig(kServerField, "client-key: a"),
       "users \"u\": client-certificate: Required value: must be set together with client-key"},
      {"certificate alone", Kubeconfig(kServerField, "client-certificate: a"),
       "users \"u\": client-key: Required value: must be set together with client-certificate"},
      {"two ways", Kubeconfig(kServerField, "token: secret\nusername: me"),
       "users \"u\": token (line 14): Forbidden: must not be set together with username"},
      {"two authorities",
       Kubeconfig(kServerField + std::string("\ncertificate-authority: a\n"
                                             "certificate-authority-data: YQ=="),
                  "token: a"),
       "clusters \"c\": certificate-authority (line 11): Forbidden: must not be set together with "
       "certificate-authority-data"},
      {"insecure with an authority",
       Kubeconfig(kServerField + std::string("\ninsecure-skip-tls-verify: true\n"
                                             "certificate-authority: a"),
                  "token: a"),
       "clusters \"c\": insecure-skip-tls-verify (line 11): Forbidden: must not be set together "
       "with "
       "certificate-authority"},
      {"number", Kubeconfig(kServerField, "password: 5407"),
       "users \"u\": password (line 14): must be a"},
      {"header", Kubeconfig(kServerField, "token: \"secret\\nX-Other: secret\""),
       "users \"u\": token (line 14): must contain only printable ASCII"},
      {"no current context", "contexts: []",
       "current-context: Required value: must be the name of a context"},
      {"unknown context", "current-context: x\ncontexts: [{name: a}, {name: b}]",
       "current-context: contexts \"x\": Not found: existing names: \"a\", \"b\""},
      {"unknown cluster",
       "current-context: x\ncontexts: [{name: x, context: {cluster: y}}]\nclusters: []",
       "contexts \"x\": clusters \"y\": Not found: existing names: none"},
      {"other file", "apiVersion: v1\nkind: ConfigMap\n",
       "must be a kubeconfig with apiVersion v1 and kind Config, not apiVersion \"v1\" and kind "
       "\"ConfigMap\""},
      {"nothing", "# a comment\n", "the file is empty"},
      {"two documents", "---\n" + Kubeconfig(kServerField, "token: a") + "---\na: b\n",
       "must contain only one document"},
      {"alias", "users:\n- user:\n    password: *secret\n", "line 3: invalid YAML or JSON"},
      {"JSON", "{\"token\": secret}", "line 1: invalid YAML or JSON"},
      {"bytes", "token: \xff\xfe secret", "line 1: invalid YAML or JSON"},
      {"twice", Kubeconfig(kServerField, "token: secret\ntoken: secret"), "line 1"},
  };
  for (const auto& [name, text, error] : cases) {
    EXPECT_THAT(KubeconfigError(text), StartsWith(error)) << name;
  }
}

TEST(KubeconfigTest, S290_PathsAreOfTheFilesFolder) {
  ASSERT_OK_AND_ASSIGN(const auto folder, testing::TemporaryFolder::Make());
  const std::string path = folder.path() + "/kubeconfig";
  EXPECT_EQ(ReadKubeconfig(path).status().message(),
            "kubeconfig: " + path + ": No such file or directory");
  std::ofstream(path) << Kubeconfig(kServerField, "tokenFile: token");
  const auto server = ReadKubeconfig(path);
  ASSERT_OK(server);
  EXPECT_EQ(server->token_file, folder.path() + "/token");
  std::ofstream(path) << "kind: Pod\n";
  EXPECT_THAT(std::string(ReadKubeconfig(path).status().message()),
              StartsWith("kubeconfig " + path + ": must be a kubeconfig"));
}

TEST(InClusterTest, S290_APodUsesItsServiceAccount) {
  ASSERT_OK_AND_ASSIGN(const auto folder, testing::TemporaryFolder::Make());
  unsetenv("KUBERNETES_SERVICE_HOST");
  EXPECT_THAT(std::string(InCluster(folder.path()).status().message()),
              HasSubstr("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set"));
  setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
  setenv("KUBERNETES_SERVICE_PORT", "443", 1);
  EXPECT_THAT(std::string(InCluster(folder.path()).status().message()),
              AllOf(HasSubstr("automountServiceAccountToken"), HasSubstr("/ca.crt: No such")));
  std::ofstream(folder.path() + "/ca.crt") << "a";
  std::ofstream(folder.path() + "/token") << "b";
  auto server = InCluster(folder.path());
  ASSERT_OK(server);
  EXPECT_EQ(server->url.ToString(), "https://[fd00::1]:443");
  EXPECT_EQ(server->tls_files.ca, folder.path() + "/ca.crt");
  EXPECT_EQ(server->token_file, folder.path() + "/token");
  setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1);
  server = InCluster(folder.path());
  ASSERT_OK(server);
  EXPECT_EQ(server->url.ToString(), "https://10.96.0.1:443");
  unsetenv("KUBERNETES_SERVICE_HOST");
  unsetenv("KUBERNETES_SERVICE_PORT");
}

}  // namespace
}  // namespace svcmap::kube::test
