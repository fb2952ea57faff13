// Implements `svcmapctl get`.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "api/cli/commands.h"
#include "api/cli/table.h"
#include "api/convert/convert.h"
#include "api/convert/fields.h"
#include "api/convert/projection.h"
#include "api/convert/quote.h"
#include "api/convert/service_parts.h"
#include "api/manifests/manifests.h"
#include "nft/types/ip_address.h"
#include "proxy/names/kube_names.h"

namespace svcmap::api {
namespace {

// Joins all entries, or the first `shown` entries and the number of omitted entries.
std::string List(std::vector<std::string> texts, bool wide, size_t shown) {
  if (!wide && texts.size() > shown) {
    const std::string omitted = absl::StrCat("+", texts.size() - shown);
    texts.resize(shown);
    texts.push_back(omitted);
  }
  return absl::StrJoin(texts, ",");
}

bool IsReady(const v1::Endpoint& endpoint) {
  return !endpoint.conditions().has_ready() || endpoint.conditions().ready();
}

// Returns the number of ready endpoints with a valid address. svcmapd uses only the first address.
size_t CountUsable(const v1::EndpointSlice& slice) {
  const auto usable = [](const v1::Endpoint& endpoint) {
    return IsReady(endpoint) && !endpoint.addresses().empty() &&
           IpAddress::Parse(endpoint.addresses(0));
  };
  return static_cast<size_t>(std::ranges::count_if(slice.endpoints(), usable));
}

// Numbers of ready endpoints with a valid address, and of all endpoints of each Service.
class ReadyCounts {
 public:
  void Add(const v1::EndpointSlice& slice) {
    const v1::ObjectMeta& metadata = slice.metadata();
    Count& count = counts_[{metadata.namespace_(), ServiceNameOf(metadata)}][slice.address_type()];
    count.all += static_cast<size_t>(slice.endpoints_size());
    count.ready += CountUsable(slice);
  }

  // Returns "2/3". A dual-stack endpoint counts once.
  std::string Of(const v1::Service& service) const {
    Count shown;
    const auto found = counts_.find({service.metadata().namespace_(), service.metadata().name()});
    if (found != counts_.end()) {
      for (const auto& [type, count] : found->second) {
        if (count.all > shown.all) shown = count;
      }
    }
    return absl::StrCat(shown.ready, "/", shown.all);
  }

 private:
  struct Count {
    size_t all = 0;
    size_t ready = 0;
  };
  // Namespace and name of the Service, then address type.
  std::map<std::pair<std::string, std::string>, std::map<std::string, Count>> counts_;
};

std::string Or(const std::string& text, std::string_view otherwise) {
  return text.empty() ? std::string(otherwise) : text;
}

// Example: "80/TCP,443:30443/TCP,1000-2000/UDP". The number after the colon is the nodePort.
std::string PortsOf(const v1::Service& service, bool wide) {
  std::vector<std::string> texts;
  const std::vector<uint16_t> end_ports = EndPorts(service);
  for (const v1::ServicePort& port : service.spec().ports()) {
    std::string text = absl::StrCat(port.port());
    const uint16_t end_port = end_ports[texts.size()];
    if (end_port != 0) absl::StrAppend(&text, "-", end_port);
    if (port.node_port() != 0) absl::StrAppend(&text, ":", port.node_port());
    texts.push_back(absl::StrCat(text, "/", Or(port.protocol(), "TCP")));
  }
  return List(std::move(texts), wide, 2);
}

std::string ClusterIpsOf(const v1::ServiceSpec& spec, bool wide) {
  if (spec.cluster_ips().empty()) return spec.cluster_ip();
  return wide ? absl::StrJoin(spec.cluster_ips(), ",") : spec.cluster_ips(0);
}

std::string ExternalIpsOf(const v1::Service& service, bool wide) {
  std::vector<std::string> texts;
  for (const v1::LoadBalancerIngress& ingress : service.status().load_balancer().ingress()) {
    texts.push_back(Or(ingress.ip(), ingress.hostname()));
  }
  const auto& ips = service.spec().external_ips();
  texts.insert(texts.end(), ips.begin(), ips.end());
  if (texts.empty() && service.spec().type() == "LoadBalancer") return "<pending>";
  return List(std::move(texts), wide, 1);
}

// Returns the names of the chains that kube-proxy's iptables mode uses for the Service (S-203), in
// port order. Returns "" if the Service is not proxied (S-2).
std::string KubeChainsOf(const v1::Service& service) {
  const v1::ServiceSpec& spec = service.spec();
  const std::string cluster_ips = ClusterIpsOf(spec, false);
  if (spec.type() == "ExternalName" || cluster_ips.empty() || cluster_ips == "None") return "";
  const std::string key =
      absl::StrCat(service.metadata().namespace_(), "/", service.metadata().name());
  std::vector<std::string> texts;
  for (const v1::ServicePort& port : spec.ports()) {
    const std::optional<proxy::Protocol> protocol = ParseProtocol(port.protocol());
    if (!protocol) continue;
    texts.push_back("KUBE-SVC-" + proxy::KubeServiceHash(key, port.name(), *protocol));
  }
  return absl::StrJoin(texts, ",");
}

std::vector<std::string> Cells(const v1::Service& service, bool wide, const ReadyCounts& ready) {
  const v1::ServiceSpec& spec = service.spec();
  std::vector<std::string> cells = {service.metadata().namespace_(),
                                    service.metadata().name(),
                                    Or(spec.type(), "ClusterIP"),
                                    ClusterIpsOf(spec, wide),
                                    ExternalIpsOf(service, wide),
                                    PortsOf(service, wide),
                                    spec.type() == "ExternalName" ? "" : ready.Of(service)};
  if (wide) cells.push_back(KubeChainsOf(service));
  return cells;
}

std::string PortsOf(const v1::EndpointSlice& slice, bool wide) {
  std::vector<std::string> texts;
  for (const v1::EndpointPort& port : slice.ports()) {
    texts.push_back(absl::StrCat(port.port(), "/", Or(port.protocol(), "TCP")));
  }
  return List(std::move(texts), wide, 2);
}

// Example: "10.1.0.5,10.1.0.6 (weight 5, not ready),+4"
std::string EndpointsOf(const v1::EndpointSlice& slice, bool wide) {
  std::vector<std::string> texts;
  Report findings(proxy::Kind::kEndpointSlice, "");  // The agent reports them.
  const uint32_t default_weight = DefaultWeight(slice.metadata(), findings);
  for (const v1::Endpoint& endpoint : slice.endpoints()) {
    std::vector<std::string> remarks;
    const uint32_t weight = endpoint.has_weight() ? endpoint.weight() : default_weight;
    if (weight != 1) remarks.push_back(absl::StrCat("weight ", weight));
    if (!IsReady(endpoint)) {
      remarks.emplace_back(endpoint.conditions().terminating() ? "terminating" : "not ready");
    }
    texts.push_back(
        absl::StrCat(endpoint.addresses().empty() ? "<none>" : endpoint.addresses(0),
                     remarks.empty() ? "" : absl::StrCat(" (", absl::StrJoin(remarks, ", "), ")")));
  }
  return List(std::move(texts), wide, 2);
}

std::vector<std::string> Cells(const v1::EndpointSlice& slice, bool wide) {
  std::vector<std::string> cells = {slice.metadata().namespace_(), slice.metadata().name(),
                                    ServiceNameOf(slice.metadata())};
  if (wide) cells.push_back(slice.address_type());
  cells.push_back(PortsOf(slice, wide));
  cells.push_back(absl::StrCat(CountUsable(slice), "/", slice.endpoints_size()));
  cells.push_back(EndpointsOf(slice, wide));
  return cells;
}

std::vector<std::string> Cells(const v1::Node& node) {
  std::vector<std::string> texts;
  for (const v1::NodeAddress& address : node.status().addresses()) {
    if (address.type() == "InternalIP" || address.type() == "ExternalIP") {
      texts.push_back(address.address());
    }
  }
  return {node.metadata().name(), absl::StrJoin(texts, ",")};
}

std::vector<std::string> Cells(const v1::ServiceCIDR& cidr) {
  return {cidr.metadata().name(), absl::StrJoin(cidr.spec().cidrs(), ",")};
}

// Column headings. `wide` includes the columns that only `-o wide` prints.
std::vector<std::string> ColumnsOf(v1::Kind kind, bool wide) {
  switch (kind) {
    case v1::KIND_SERVICE:
      if (!wide) {
        return {"NAMESPACE", "NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "READY"};
      }
      return {"NAMESPACE",   "NAME",    "TYPE",  "CLUSTER-IP",
              "EXTERNAL-IP", "PORT(S)", "READY", "KUBE-PROXY CHAIN"};
    case v1::KIND_ENDPOINT_SLICE:
      if (!wide) return {"NAMESPACE", "NAME", "SERVICE", "PORTS", "READY", "ENDPOINTS"};
      return {"NAMESPACE", "NAME", "SERVICE", "ADDRESSTYPE", "PORTS", "READY", "ENDPOINTS"};
    case v1::KIND_NODE:
      return {"NAME", "ADDRESSES"};
    case v1::KIND_SERVICE_CIDR:
      return {"NAME", "CIDRS"};
    default:
      return {};
  }
}

// Returns the cells of one row in the order of ColumnsOf. Unless `wide` is set, long lists are
// shortened: "10.1.0.5,10.1.0.6,+8".
std::vector<std::string> CellsOf(const v1::Object& object, bool wide, const ReadyCounts& ready) {
  switch (object.object_case()) {
    case v1::Object::kService:
      return Cells(object.service(), wide, ready);
    case v1::Object::kEndpointSlice:
      return Cells(object.endpoint_slice(), wide);
    case v1::Object::kNode:
      return Cells(object.node());
    case v1::Object::kServiceCidr:
      return Cells(object.service_cidr());
    case v1::Object::OBJECT_NOT_SET:
      break;
  }
  return {};
}

// Counts the endpoints for the READY column of Services.
absl::StatusOr<ReadyCounts> CountEndpoints(const ObjectId& services, Reader& reader) {
  ReadyCounts counts;
  const absl::Status status =
      reader.ForEach({v1::KIND_ENDPOINT_SLICE, services.name_space, ""},
                     [&](const v1::Object& object) { counts.Add(object.endpoint_slice()); });
  if (!status.ok()) return status;
  return counts;
}

// Calls `write` for each object that matches `filter`, and returns their number.
absl::StatusOr<size_t> WriteObjects(const ObjectId& filter, const Session& session,
                                    const std::function<void(const v1::Object&)>& write) {
  size_t count = 0;
  const absl::Status status = session.reader.List(filter, [&](const v1::Object& object) {
    write(object);
    ++count;
    return session.out.good();  // Stops when standard output is closed.
  });
  if (!status.ok()) return status;
  return count;
}

// Reports that no object was found. Returns the exit code.
ExitCode ReportNothing(const ObjectId& filter, Session& session) {
  if (filter.name.empty()) {
    session.Note(
        absl::StrCat("no ", std::string(WordsOf(filter.kind).plural), " found",
                     filter.name_space.empty() ? "" : " in namespace " + Quote(filter.name_space)));
    return ExitCode::kOk;
  }
  return session.Refuse(NotFoundText(filter, session.reader));
}

ExitCode PrintTables(const GetOptions& options, Session& session) {
  const bool wide = options.output == OutputFormat::kWide;
  ExitCode code = ExitCode::kOk;
  bool printed = false;
  for (const ObjectId& filter : options.filters) {
    absl::StatusOr<ReadyCounts> ready{ReadyCounts()};
    if (filter.kind == v1::KIND_SERVICE) ready = CountEndpoints(filter, session.reader);
    if (!ready.ok()) return session.CallFailed(ready.status());
    std::optional<Table> table;
    const auto write = [&](const v1::Object& object) {
      if (!table) {
        if (printed) session.out << '\n';
        table.emplace(ColumnsOf(filter.kind, wide), session.out, wide ? 0 : session.screen.columns);
      }
      // Skips objects of other kinds, because their columns differ.
      if (IdOf(object).kind == filter.kind) table->Row(CellsOf(object, wide, *ready));
    };
    const absl::StatusOr<size_t> count = WriteObjects(filter, session, write);
    if (table) table->Finish();
    if (!count.ok()) return session.CallFailed(count.status());
    printed = printed || table;
    if (*count == 0) code = Worse(code, ReportNothing(filter, session));
  }
  return code;
}

constexpr char kListStart[] = "{\n  \"apiVersion\": \"v1\",\n  \"items\": [";

// Prints an object. If `single` is false, the JSON output is an item of a List.
void PrintObject(const v1::Object& object, OutputFormat format, bool single, bool first,
                 std::ostream& out) {
  if (format == OutputFormat::kName) {
    out << IdOf(object).ToString() << '\n';
  } else if (format == OutputFormat::kYaml) {
    out << (first ? "" : "---\n") << ManifestYaml({object});
  } else if (const std::string json = ManifestJson({object}); single) {
    out << json;
  } else {
    out << (first ? kListStart : ",") << "\n    "
        << absl::StrReplaceAll(absl::StripTrailingAsciiWhitespace(json), {{"\n", "\n    "}});
  }
}

}  // namespace

std::string NotFoundText(const ObjectId& id, Reader& reader) {
  std::string text =
      absl::StrCat(std::string(WordsOf(id.kind).plural), " ", Quote(id.name), " not found",
                   id.name_space.empty() ? "" : " in namespace " + Quote(id.name_space));
  if (id.name_space.empty()) return text;
  std::set<std::string> elsewhere;
  // If the call fails, the text is complete without the other namespaces.
  (void)reader.ForEach({id.kind, "", id.name}, [&](const v1::Object& object) {
    if (IdOf(object).name == id.name) elsewhere.insert(Quote(IdOf(object).name_space));
  });
  elsewhere.erase(Quote(id.name_space));
  if (elsewhere.empty()) return text;
  return absl::StrCat(text, "; found in namespace ", absl::StrJoin(elsewhere, ", "));
}

ExitCode RunGet(const Options& all, Session& session) {
  const GetOptions& options = all.get;
  if (options.output == OutputFormat::kTable || options.output == OutputFormat::kWide) {
    return PrintTables(options, session);
  }
  const ObjectId& first = options.filters.front();
  // A name selects one object, unless it is searched in all namespaces.
  const bool single = options.filters.size() == 1 && !first.name.empty() &&
                      (!first.name_space.empty() || !WordsOf(first.kind).namespaced);
  bool empty = true;
  const auto write = [&](const v1::Object& object) {
    PrintObject(object, options.output, single, std::exchange(empty, false), session.out);
  };
  ExitCode code = ExitCode::kOk;
  for (const ObjectId& filter : options.filters) {
    const absl::StatusOr<size_t> count = WriteObjects(filter, session, write);
    if (!count.ok()) return session.CallFailed(count.status());
    if (*count == 0) code = Worse(code, ReportNothing(filter, session));
  }
  // An empty List is also JSON.
  if (options.output == OutputFormat::kJson && !single && (!empty || code == ExitCode::kOk)) {
    session.out << (empty ? absl::StrCat(kListStart, "]") : "\n  ]")
                << ",\n  \"kind\": \"List\"\n}\n";
  }
  return code;
}

}  // namespace svcmap::api
