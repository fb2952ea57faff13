// Builders for a controller's objects, which make tests readable:
//
//   AService("shop/web").ClusterIps("10.96.0.10", "fd00:96::10").Port("http", 80).NodePort(30080)
//   ASlice("shop/web").Endpoint("10.244.1.11", "n1").Port("http", 8080)
//
// Builders do not validate values. Each builder converts to its message and to a v1::Object.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "svcmap/v1/control.pb.h"
#include "tests/support/client.h"

namespace svcmap::testing {

using Objects = std::vector<v1::Object>;

// Returns the name in the Kubernetes API, for example "TCP".
const char* ApiName(Protocol protocol);

class AService {
 public:
  // `namespace_and_name` is for example "shop/web".
  explicit AService(const std::string& namespace_and_name);

  // Sets a single-stack address.
  AService& ClusterIp(const std::string& ip);
  // Sets dual-stack addresses.
  AService& ClusterIps(const std::string& first, const std::string& second);
  AService& Port(const std::string& name, int port, Protocol protocol = Protocol::kTcp);
  AService& NodePort(int port);  // Sets the nodePort of the last added port.
  AService& ExternalIp(const std::string& ip);
  AService& LoadBalancerIp(const std::string& ip);
  AService& LoadBalancerIpWithMode(const std::string& ip, const std::string& mode);
  AService& Type(const std::string& type);
  AService& InternalPolicy(const std::string& policy);  // `policy` is for example "Local".
  AService& ExternalPolicy(const std::string& policy);
  AService& HealthCheckNodePort(int port);
  AService& SourceRange(const std::string& cidr);  // Appends a range.
  // Enables ClientIP affinity with the default timeout.
  AService& ClientIpAffinity();
  AService& ClientIpAffinity(int timeout_seconds);
  AService& EndpointPick(const std::string& pick, int table_size = 0);  // "ClientIP"
  AService& CreatedAt(int64_t unix_seconds);
  AService& Annotation(const std::string& name, const std::string& value);

  const v1::Service& proto() const { return service_; }
  operator v1::Object() const;  // NOLINT(google-explicit-constructor): lists of mixed objects.

 private:
  v1::Service service_;
};

class ASlice {
 public:
  // Builds a slice of the Service "shop/web". The slice is named "web-1" unless Named() is called.
  explicit ASlice(const std::string& service);

  ASlice& Named(const std::string& name);
  // Adds an endpoint, and sets the slice's address type to the address family of the endpoint.
  ASlice& Endpoint(const std::string& ip, const std::string& node = "");
  ASlice& Port(const std::string& name, int port, Protocol protocol = Protocol::kTcp);

  // Marks the last added endpoint as not ready.
  ASlice& NotReady();
  // Marks the last added endpoint as terminating, which also sets ready to false.
  ASlice& Terminating(bool serving = true);
  ASlice& ZoneHint(const std::string& zone);  // Appends a hint.
  ASlice& NodeHint(const std::string& node);  // Appends a hint.
  ASlice& Weight(uint32_t weight);

  const v1::EndpointSlice& proto() const { return slice_; }
  operator v1::Object() const;  // NOLINT(google-explicit-constructor)

 private:
  v1::Endpoint& last() { return *slice_.mutable_endpoints(slice_.endpoints_size() - 1); }
  v1::EndpointSlice slice_;
};

// Builds changes to single endpoints of the stored slice "shop/web-1".
class ADelta {
 public:
  explicit ADelta(const std::string& slice);
  ADelta& Remove(const std::string& ip);
  ADelta& Put(const std::string& ip, const std::string& node = "");
  operator v1::Change() const { return change_; }  // NOLINT(google-explicit-constructor)

 private:
  v1::Change change_;
};

class ANode {
 public:
  explicit ANode(const std::string& name);
  ANode& InternalIp(const std::string& ip);
  ANode& Zone(const std::string& zone);
  ANode& PodCidr(const std::string& cidr);  // Appends a range.
  ANode& Taint(const std::string& key);     // Appends a taint.
  ANode& BeingDeleted();
  operator v1::Object() const;  // NOLINT(google-explicit-constructor)

 private:
  v1::Node node_;
};

v1::Object AServiceCidr(const std::string& name, const std::vector<std::string>& cidrs);

v1::ObjectRef ServiceRef(const std::string& namespace_and_name);
v1::ObjectRef SliceRef(const std::string& namespace_and_name);
v1::ObjectRef NodeRef(const std::string& name);
v1::ObjectRef ServiceCidrRef(const std::string& name);

v1::Change Upsert(const v1::Object& object);
v1::Change Removal(const v1::ObjectRef& ref);

}  // namespace svcmap::testing
