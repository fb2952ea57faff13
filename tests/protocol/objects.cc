#include "tests/protocol/objects.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

namespace svcmap::protocol {
namespace {

// Serializes a message deterministically, so that equal messages produce equal bytes.
std::string Serialized(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

}  // namespace

v1::Service Service(const std::string& name, int ip, const std::string& note) {
  v1::Service service;
  service.mutable_metadata()->set_namespace_(kNamespace);
  service.mutable_metadata()->set_name(name);
  if (!note.empty()) {
    service.mutable_status()->mutable_load_balancer()->add_ingress()->set_hostname(note);
  }
  service.mutable_spec()->set_cluster_ip("198.18.0." + std::to_string(ip));
  v1::ServicePort& port = *service.mutable_spec()->add_ports();
  port.set_name("http");
  port.set_port(80);
  return service;
}

v1::EndpointSlice Slice(const std::string& name, const std::string& service, int ip) {
  v1::EndpointSlice slice;
  slice.mutable_metadata()->set_namespace_(kNamespace);
  slice.mutable_metadata()->set_name(name);
  (*slice.mutable_metadata()->mutable_labels())["kubernetes.io/service-name"] = service;
  slice.set_address_type("IPv4");
  v1::EndpointPort& port = *slice.add_ports();
  port.set_name("http");
  port.set_port(8080);
  slice.add_endpoints()->add_addresses("198.19.0." + std::to_string(ip));
  return slice;
}

v1::Change Put(v1::Service service) {
  v1::Change change;
  *change.mutable_service() = std::move(service);
  return change;
}

v1::Change Put(v1::EndpointSlice slice) {
  v1::Change change;
  *change.mutable_endpoint_slice() = std::move(slice);
  return change;
}

v1::Change RemoveService(const std::string& name) {
  v1::Change change;
  change.mutable_remove()->set_kind(v1::KIND_SERVICE);
  change.mutable_remove()->set_namespace_(kNamespace);
  change.mutable_remove()->set_name(name);
  return change;
}

State After(State state, const Changes& changes) {
  for (const v1::Change& change : changes) {
    if (change.has_service()) {
      state["service " + change.service().metadata().name()] = Serialized(change.service());
    } else if (change.has_endpoint_slice()) {
      const v1::EndpointSlice& slice = change.endpoint_slice();
      state["slice " + slice.metadata().name()] = Serialized(slice);
    } else if (change.has_remove()) {
      state.erase("service " + change.remove().name());
    }
  }
  return state;
}

State StateOf(const Changes& changes) { return After({}, changes); }

std::string Difference(const State& expected, const State& saw) {
  std::string text;
  for (const auto& [name, bytes] : expected) {
    const auto found = saw.find(name);
    if (found == saw.end()) {
      text += " without " + name;
    } else if (found->second != bytes) {
      text += " another " + name;
    }
  }
  for (const auto& [name, bytes] : saw) {
    if (!expected.contains(name)) text += " also " + name;
  }
  return text.empty() ? "the same" : text.substr(1);
}

}  // namespace svcmap::protocol
