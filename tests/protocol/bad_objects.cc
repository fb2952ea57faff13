// Invalid objects are reported in the Ack and do not affect other objects.
#include <set>
#include <utility>

#include "tests/protocol/checks.h"
#include "tests/protocol/session.h"

namespace svcmap::protocol {
namespace {

v1::Service WithPort(v1::Service service, uint32_t port) {
  service.mutable_spec()->mutable_ports(0)->set_port(port);
  return service;
}

v1::Service WithClusterIp(v1::Service service, const std::string& ip) {
  service.mutable_spec()->set_cluster_ip(ip);
  return service;
}

// Endpoints that are missing from a rejected version are removed, so the slice keeps its endpoints.
v1::EndpointSlice WithAnotherAddress(v1::EndpointSlice slice, const std::string& ip) {
  v1::Endpoint another = slice.endpoints(0);
  another.set_addresses(0, ip);
  *slice.add_endpoints() = std::move(another);
  return slice;
}

}  // namespace

void CheckBadObjects(const Target& target, Verdict& verdict) {
  const Changes base = {Put(Service("web", 1)), Put(Slice("web-1", "web", 1)),
                        Put(Service("kept", 2))};
  Replace(target, base, verdict);
  const Changes mistakes = {Put(WithPort(Service("web", 1), 70000)),
                            Put(WithAnotherAddress(Slice("web-1", "web", 1), "no address")),
                            Put(WithClusterIp(Service("new", 3), "10.96.0.999")),
                            Put(Service("name with blanks", 4))};
  const std::set<std::string> names = {"web", "web-1", "new", "name with blanks"};
  Session session(target);
  session.Open(target);
  Changes batch = mistakes;
  batch.push_back(Put(Service("fine", 5)));
  session.Batch(1, batch);
  const v1::Ack ack = session.Ack();
  ExpectAck(ack, 1, v1::COMMITTED, verdict);
  std::set<std::string> rejected;
  for (const v1::ObjectResult& result : ack.results()) {
    if (result.severity() != v1::REFUSED) continue;
    rejected.insert(result.name());
    verdict.That(!result.field().empty() && !result.reason().empty() && !result.message().empty(),
                 "field, reason and message of each rejection", result.ShortDebugString());
  }
  verdict.That(rejected == names, "4 rejected objects", ack.ShortDebugString());
  verdict.Contains(
      "the rejection of web",
      "Service svcmap-check/web rejected: spec.ports[0].port: Invalid value: 70000: must "
      "be between 1 and 65535, inclusive; the previously accepted version, if any, "
      "stays in effect",
      ack.ShortDebugString());
  const State held = After(StateOf(base), {Put(Service("fine", 5))});
  ExpectStored(target, held, "after a batch with invalid objects", verdict);

  // A rejected object counts as part of the snapshot, so the agent does not remove the stored
  // version.
  session.Begin();
  session.Batch(2, mistakes);
  ExpectAck(session.Ack(), 2, v1::UNCHANGED, verdict);
  session.End(3);
  ExpectAck(session.Ack(), 3, v1::COMMITTED, verdict);
  ExpectStored(target, StateOf({base[0], base[1]}), "after a snapshot with invalid objects",
               verdict);
}

}  // namespace svcmap::protocol
