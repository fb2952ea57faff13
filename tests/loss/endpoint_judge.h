// Counts datagrams that a node sent to a wrong endpoint: an endpoint of another Service, an
// endpoint that the Service no longer has, or an endpoint that the client must not reach with its
// own address.
//
// A datagram may reach a removed endpoint if its lookup was before the commit. Therefore, the
// datagrams between two calls of Judge() may reach the endpoints before and after the changes
// between these calls.
#pragma once

#include <map>
#include <set>
#include <string>

#include "tests/loss/counted_service.h"
#include "tests/loss/packet_watch.h"

namespace svcmap::testing {

class EndpointJudge {
 public:
  // Judges the datagrams that left the node since the last call. Call immediately before a change.
  void Judge(const DatagramCounts& left);
  // Call for each Service before the first datagram, and after Judge() before the controller sends
  // the change.
  void Change(const CountedService& changed);

  // Misdirected datagrams so far, by the keys of PacketWatch::Left().
  const DatagramCounts& misdirected() const { return misdirected_; }

 private:
  static std::set<std::string> KeysOf(const CountedService& service);

  std::map<int, std::set<std::string>> current_;  // Keys by number of the Service.
  std::set<std::string> permitted_;
  DatagramCounts judged_;
  DatagramCounts misdirected_;
};

}  // namespace svcmap::testing
