#include <curl/curl.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"
#include "api/kube/http/api_server.h"
#include "api/manifests/fill.h"
#include "api/manifests/manifests.h"
#include "api/manifests/readers.h"
#include "nft/base/status.h"
#include "nft/types/ip_address.h"

namespace svcmap::kube {
namespace {

using api::TreeNode;

constexpr char kInstead[] =
    "svcmap-kube does not run credential plugins. Use tokenFile, or client-certificate and "
    "client-key. In a pod, omit the kubeconfig to use the service account of the pod";

constexpr char kHostVariable[] = "KUBERNETES_SERVICE_HOST";
constexpr char kPortVariable[] = "KUBERNETES_SERVICE_PORT";

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns an error if the token cannot be sent in a header.
absl::Status CheckToken(const std::string& text) {
  if (text.empty()) return absl::InvalidArgumentError("Required value: the token is empty");
  if (std::all_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_isgraph(c); }))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      "must contain only printable ASCII characters without whitespace");
}

// The fields of a map. Missing fields and null values are empty. Keeps the first error.
class KubeconfigFields {
 public:
  // `place` is the name of the map in errors, such as "users \"kubelet\"", or empty for the file.
  KubeconfigFields(const TreeNode* map, std::string place) : map_(map), place_(std::move(place)) {}

  const std::string& place() const { return place_; }
  const absl::Status& status() const { return status_; }

  const TreeNode* Find(const char* name) const {
    const TreeNode* value = map_->Find(name);
    return value == nullptr || value->type == TreeNode::Type::kNull ? nullptr : value;
  }

  std::string Text(const char* name) {
    const TreeNode* value = Find(name);
    if (value == nullptr) return "";
    if (value->type != TreeNode::Type::kString) {
      Fail(name, value->type == TreeNode::Type::kList || value->type == TreeNode::Type::kMap
                     ? "must be a string"
                     : "must be a string; add quotes");
      return "";
    }
    if (value->text.find('\0') != std::string::npos) Fail(name, "must not contain NUL characters");
    return value->text;
  }

  std::string Path(const char* name, const std::string& folder) {
    const std::string path = Text(name);
    return path.empty() ? "" : (std::filesystem::path(folder) / path).string();
  }

  std::string Data(const char* name) {
    const std::string text = Text(name);
    std::string data;
    if (!absl::Base64Unescape(text, &data)) Fail(name, "must be valid base64");
    if (!text.empty() && data.empty()) Fail(name, "Required value: the decoded data is empty");
    return data;
  }

  bool Flag(const char* name) {
    const TreeNode* value = Find(name);
    if (value != nullptr && value->type != TreeNode::Type::kBool)
      Fail(name,
           absl::StrCat("Invalid value: ",
                        value->items.empty() && value->fields.empty() ? api::ShowScalar(*value)
                                                                      : "a list or map",
                        ": must be true or false"));
    return value != nullptr && value->text == "true";
  }

  // Fails if two fields are set that exclude each other.
  void NotBoth(const char* one, const char* other) {
    if (Given(one) && Given(other))
      Fail(one, absl::StrCat("Forbidden: must not be set together with ", other));
  }

  void Fail(const char* name, std::string_view what) {
    if (!status_.ok()) return;
    const TreeNode* value = map_->Find(name);
    const std::string line = value == nullptr ? "" : absl::StrCat(" (line ", value->line, ")");
    status_ = absl::InvalidArgumentError(
        absl::StrCat(place_, place_.empty() ? "" : ": ", name, line, ": ", std::string(what)));
  }

 private:
  bool Given(const char* name) const {
    const TreeNode* value = Find(name);
    return value != nullptr && !(value->type == TreeNode::Type::kString && value->text.empty()) &&
           !(value->type == TreeNode::Type::kBool && value->text == "false");
  }

  const TreeNode* map_;
  std::string place_;
  absl::Status status_;
};

absl::Status BadKubeconfig(const std::string& what) { return absl::InvalidArgumentError(what); }

// Returns the names in quotes, separated by commas, for a message.
std::string NamesInList(const TreeNode* list) {
  std::string names;
  int count = 0;
  for (const TreeNode* item : list->items) {
    const TreeNode* name = item->Find("name");
    if (name == nullptr || name->type != TreeNode::Type::kString) continue;
    if (++count > 5) return names + ", ...";
    absl::StrAppend(&names, names.empty() ? "" : ", ", api::Quote(name->text));
  }
  return names.empty() ? "none" : names;
}

// Returns the field `inner` of the entry `name` in the list `list`.
absl::StatusOr<KubeconfigFields> FindNamed(const KubeconfigFields& file, const char* list,
                                           const char* inner, const std::string& name) {
  const std::string place = absl::StrCat(list, " ", api::Quote(name));
  const TreeNode* entries = file.Find(list);
  if (entries == nullptr)
    return BadKubeconfig(absl::StrCat(place, ": Not found: the file has no ", list));
  if (entries->type != TreeNode::Type::kList)
    return BadKubeconfig(absl::StrCat(list, ": must be a list"));
  const TreeNode* found = nullptr;
  for (const TreeNode* entry : entries->items) {
    const TreeNode* its_name = entry->Find("name");
    if (its_name == nullptr || its_name->type != TreeNode::Type::kString || its_name->text != name)
      continue;
    if (found != nullptr)
      return BadKubeconfig(absl::StrCat(place, ": Duplicate value: must be unique"));
    found = entry;
  }
  if (found == nullptr) {
    return BadKubeconfig(
        absl::StrCat(place, ": Not found: existing names: ", NamesInList(entries)));
  }
  const TreeNode* value = found->Find(inner);
  if (value == nullptr || value->type != TreeNode::Type::kMap) {
    return BadKubeconfig(absl::StrCat(place, ": ", inner, ": must be a map"));
  }
  return KubeconfigFields(value, place);
}

absl::Status ReadCluster(KubeconfigFields& cluster, const std::string& folder, ApiServer& server) {
  const std::string url = cluster.Text("server");
  if (!cluster.status().ok()) return cluster.status();
  if (url.empty())
    return BadKubeconfig(absl::StrCat(
        cluster.place(), ": server: Required value: must be a URL, such as https://10.0.0.1:6443"));
  absl::StatusOr<ServerUrl> parsed = ParseServerUrl(url);
  if (!parsed.ok()) return Annotate(parsed.status(), absl::StrCat(cluster.place(), ": server"));
  server.url = *std::move(parsed);

  if (const std::string text = cluster.Text("proxy-url"); !text.empty()) {
    absl::StatusOr<ProxyUrl> proxy = ParseProxyUrl(text);
    if (!proxy.ok()) cluster.Fail("proxy-url", std::string(proxy.status().message()));
    if (proxy.ok()) server.proxy = *std::move(proxy);
  }
  server.tls_files.ca = cluster.Path("certificate-authority", folder);
  server.tls_text.ca = cluster.Data("certificate-authority-data");
  server.insecure_skip_tls_verify = cluster.Flag("insecure-skip-tls-verify");
  server.tls_server_name = cluster.Text("tls-server-name");
  if (const std::string& name = server.tls_server_name; !name.empty()) {
    parsed = ParseServerUrl("https://" + HostInUrl(name));
    if (!parsed.ok() || !parsed->path.empty()) {
      cluster.Fail("tls-server-name", absl::StrCat("Invalid value: ", api::Quote(name),
                                                   ": must be a host name or IP address"));
    }
  }
  cluster.NotBoth("certificate-authority", "certificate-authority-data");
  cluster.NotBoth("insecure-skip-tls-verify", "certificate-authority");
  cluster.NotBoth("insecure-skip-tls-verify", "certificate-authority-data");
  return cluster.status();
}

absl::Status ReadUser(KubeconfigFields& user, const std::string& folder, ApiServer& server) {
  for (const char* name : {"exec", "auth-provider"}) {
    if (user.Find(name) != nullptr) user.Fail(name, absl::StrCat("Forbidden: ", kInstead));
  }
  for (const char* name : {"as", "as-uid", "as-groups", "as-user-extra"}) {
    if (user.Find(name) != nullptr) {
      user.Fail(name, "Forbidden: impersonation is not supported; use the user's own credentials");
    }
  }
  api::TlsFiles& files = server.tls_files;
  api::TlsMaterial& text = server.tls_text;
  files.certificate = user.Path("client-certificate", folder);
  text.certificate = user.Data("client-certificate-data");
  files.key = user.Path("client-key", folder);
  text.key = user.Data("client-key-data");
  server.token_file = user.Path("tokenFile", folder);
  server.token = user.Text("token");
  server.username = user.Text("username");
  server.password = user.Text("password");
  user.NotBoth("client-certificate", "client-certificate-data");
  user.NotBoth("client-key", "client-key-data");
  user.NotBoth("token", "username");
  user.NotBoth("tokenFile", "username");

  const bool certificate = !files.certificate.empty() || !text.certificate.empty();
  const bool key = !files.key.empty() || !text.key.empty();
  if (certificate && !key)
    user.Fail("client-key", "Required value: must be set together with client-certificate");
  if (key && !certificate)
    user.Fail("client-certificate", "Required value: must be set together with client-key");
  if (!server.password.empty() && server.username.empty()) {
    user.Fail("username", "Required value: must be set together with password");
  }
  if (!server.token.empty()) {
    const absl::Status token = CheckToken(server.token);
    if (!token.ok()) user.Fail("token", std::string(token.message()));
  }
  // If both are set, tokenFile takes precedence as in kubectl, because the token may be outdated.
  if (!server.token_file.empty()) server.token.clear();
  return user.status();
}

absl::StatusOr<ApiServer> ReadRoot(const TreeNode& root, const std::string& folder) {
  if (root.type != TreeNode::Type::kMap)
    return BadKubeconfig("must be a kubeconfig: expected a map");
  KubeconfigFields file(&root, "");
  const std::string version = file.Text("apiVersion");
  const std::string kind = file.Text("kind");
  const std::string current = file.Text("current-context");
  if (!file.status().ok()) return file.status();
  if ((!version.empty() && version != "v1") || (!kind.empty() && kind != "Config")) {
    return BadKubeconfig(
        absl::StrCat("must be a kubeconfig with apiVersion v1 and kind Config, not ", "apiVersion ",
                     api::Quote(version), " and kind ", api::Quote(kind)));
  }
  if (current.empty()) {
    return BadKubeconfig("current-context: Required value: must be the name of a context");
  }
  absl::StatusOr<KubeconfigFields> context = FindNamed(file, "contexts", "context", current);
  if (!context.ok()) return Annotate(context.status(), "current-context");
  const std::string cluster_name = context->Text("cluster");
  const std::string user_name = context->Text("user");
  if (!context->status().ok()) return context->status();
  if (cluster_name.empty())
    return BadKubeconfig(
        absl::StrCat(context->place(), ": cluster: Required value: must be the name of a cluster"));

  ApiServer server;
  absl::StatusOr<KubeconfigFields> cluster = FindNamed(file, "clusters", "cluster", cluster_name);
  if (!cluster.ok()) return Annotate(cluster.status(), context->place());
  if (const absl::Status status = ReadCluster(*cluster, folder, server); !status.ok()) {
    return status;
  }
  // The server needs no credentials, for example `kubectl proxy`.
  if (user_name.empty()) return server;
  absl::StatusOr<KubeconfigFields> user = FindNamed(file, "users", "user", user_name);
  if (!user.ok()) return Annotate(user.status(), context->place());
  if (const absl::Status status = ReadUser(*user, folder, server); !status.ok()) return status;
  return server;
}

constexpr char kWantedServer[] = "expected https://HOST:PORT";
constexpr char kWantedProxy[] = "expected http://, https:// or socks5:// with HOST:PORT";

struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using UrlParts = std::unique_ptr<CURLU, FreeUrl>;

// Returns null if `url` is not a URL.
UrlParts SplitUrl(const std::string& url) {
  UrlParts parts(curl_url());
  if (curl_url_set(parts.get(), CURLUPART_URL, url.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
    return nullptr;
  return parts;
}

// Returns an empty string if the part is missing.
std::string PartOf(const UrlParts& parts, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(parts.get(), part, &text, flags) != CURLUE_OK) return "";
  std::string result = text;
  curl_free(text);
  return result;
}

bool IsThisMachine(const std::string& host) {
  if (host == "localhost") return true;
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  const auto address = IpAddress::Parse(bracketed ? host.substr(1, host.size() - 2) : host);
  return address && address->IsLoopback();
}

}  // namespace

absl::StatusOr<ApiServer> ParseKubeconfig(std::string_view text, const std::string& folder) {
  absl::StatusOr<ApiServer> server = BadKubeconfig("the file is empty; expected a kubeconfig");
  int documents = 0;
  api::ReadDocuments(text, api::Flaws::kRejected, [&](const api::ReadTree& read) {
    const auto* error = std::get_if<api::SyntaxError>(&read);
    // The document contains only comments.
    if (error == nullptr && std::get<api::Tree>(read).root == nullptr) return;
    if (++documents > 1) return;
    if (error == nullptr) {
      server = ReadRoot(*std::get<api::Tree>(read).root, folder);
    } else {  // The parser's error may contain a secret.
      server =
          BadKubeconfig(absl::StrCat("line ", error->line,
                                     ": invalid YAML or JSON; for details, run `kubectl config "
                                     "view --kubeconfig` (omitted here to protect credentials)"));
    }
  });
  if (documents > 1 && server.ok()) return BadKubeconfig("must contain only one document");
  return server;
}

absl::StatusOr<ApiServer> ReadKubeconfig(const std::string& path) {
  const absl::StatusOr<std::string> text = api::ReadTextFile(path);
  if (!text.ok()) return Annotate(text.status(), "kubeconfig");
  absl::StatusOr<ApiServer> server =
      ParseKubeconfig(*text, std::filesystem::path(path).parent_path().string());
  if (!server.ok()) return Annotate(server.status(), absl::StrCat("kubeconfig ", path));
  return server;
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  absl::StatusOr<std::string> token = api::ReadTextFile(path);
  if (!token.ok()) return Annotate(token.status(), "token file");
  absl::StripAsciiWhitespace(&*token);
  const absl::Status status = CheckToken(*token);
  if (!status.ok()) return Annotate(status, "token file: " + path);
  return token;
}

absl::StatusOr<ApiServer> InCluster(const std::string& folder) {
  const std::string host = FromEnvironment(kHostVariable);
  const std::string port = FromEnvironment(kPortVariable);
  if (host.empty() || port.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no API server: set --kubeconfig or --master, or run svcmap-kube in a pod; ",
                     kHostVariable, " and ", kPortVariable, " are not set"));
  }
  absl::StatusOr<ServerUrl> url = ParseServerUrl("https://" + HostInUrl(host) + ":" + port);
  if (!url.ok()) {
    return Annotate(url.status(), absl::StrCat(kHostVariable, " and ", kPortVariable));
  }
  ApiServer server = {.url = *std::move(url), .token_file = folder + "/token"};
  server.tls_files.ca = folder + "/ca.crt";
  for (const std::string& path : {server.tls_files.ca, server.token_file}) {
    const absl::Status status = api::ReadTextFile(path).status();
    if (!status.ok()) {
      return Annotate(status, "service account (is automountServiceAccountToken false?)");
    }
  }
  return server;
}

absl::StatusOr<ServerUrl> ParseServerUrl(const std::string& url) {
  const bool secret = url.find('@') != std::string::npos;
  const auto reject = [&](const std::string& why) {
    return absl::InvalidArgumentError(
        absl::StrCat("Invalid value: ", secret ? "(hidden)" : api::Quote(url), ": ", why));
  };
  const UrlParts parts = SplitUrl(url);
  if (parts == nullptr) return reject(absl::StrCat("must be a URL; ", kWantedServer));
  ServerUrl server = {.scheme = PartOf(parts, CURLUPART_SCHEME),
                      .host = PartOf(parts, CURLUPART_HOST),
                      .port = PartOf(parts, CURLUPART_PORT, CURLU_DEFAULT_PORT),
                      .path = PartOf(parts, CURLUPART_PATH)};
  if (server.scheme != "https" && server.scheme != "http") {
    return reject(absl::StrCat("the scheme must be https or http; ", kWantedServer));
  }
  if (!PartOf(parts, CURLUPART_USER).empty() || !PartOf(parts, CURLUPART_PASSWORD).empty()) {
    return reject("must not contain a user name or password; use the fields username and password");
  }
  if (!PartOf(parts, CURLUPART_QUERY).empty() || !PartOf(parts, CURLUPART_FRAGMENT).empty()) {
    return reject(absl::StrCat("must not contain a query or fragment; ", kWantedServer));
  }
  if (server.scheme == "http" && !IsThisMachine(server.host)) {
    return reject(
        "must use https: http sends credentials unencrypted and is only allowed for 127.0.0.1, ::1 "
        "and localhost");
  }
  while (server.path.ends_with('/')) server.path.pop_back();
  return server;
}

absl::StatusOr<ProxyUrl> ParseProxyUrl(std::string url) {
  const UrlParts parts = SplitUrl(url);
  const std::string scheme = parts == nullptr ? "" : PartOf(parts, CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https" && scheme != "socks5" && scheme != "socks5h") {
    return absl::InvalidArgumentError(absl::StrCat("must be the URL of a proxy; ", kWantedProxy));
  }
  const std::string port = PartOf(parts, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  std::string name =
      absl::StrCat(scheme, "://", PartOf(parts, CURLUPART_HOST), port.empty() ? "" : ":", port);
  // With socks5h, the proxy resolves host names, as with kubectl.
  if (scheme == "socks5") url.insert(scheme.size(), "h");
  return ProxyUrl{.url = std::move(url), .name = std::move(name)};
}

std::string HostInUrl(const std::string& host) {
  return host.find(':') == std::string::npos ? host : absl::StrCat("[", host, "]");
}

}  // namespace svcmap::kube
