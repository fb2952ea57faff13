// Tests of EndpointDelta: the resulting slice, and rejected deltas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "api/convert/convert.h"
#include "api/convert/fields.h"
#include "tests/support/encoded.h"
#include "tests/unit/api/convert_objects.h"

namespace svcmap::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct Delta {
  // Addresses of the endpoints in the delta's fields `remove` and `put`.
  std::vector<std::string> remove, put;
  std::string name = "web-1";
};

v1::EndpointDelta Message(const Delta& delta) {
  v1::EndpointDelta message;
  message.set_namespace_("shop");
  message.set_name(delta.name);
  for (const std::string& ip : delta.remove) message.add_remove(ip);
  for (const std::string& ip : delta.put) message.add_upsert()->add_addresses(ip);
  return message;
}

v1::EndpointSlice StoredWith(const std::vector<std::string>& ips) {
  v1::EndpointSlice slice;
  slice.mutable_metadata()->set_namespace_("shop");
  slice.mutable_metadata()->set_name("web-1");
  (*slice.mutable_metadata()->mutable_labels())["kubernetes.io/service-name"] = "web";
  slice.set_address_type(ips.empty() || ips[0].find(':') == std::string::npos ? "IPv4" : "IPv6");
  for (const std::string& ip : ips) slice.add_endpoints()->add_addresses(ip);
  return slice;
}

Converted<proxy::EndpointSlice> Changed(const v1::EndpointSlice& slice,
                                        const std::vector<Delta>& deltas) {
  std::vector<std::shared_ptr<const v1::EndpointDelta>> messages;
  for (const Delta& delta : deltas) {
    messages.push_back(std::make_shared<v1::EndpointDelta>(Message(delta)));
  }
  const std::string held = Serialize(slice);
  return ConvertDeltas("shop/web-1", &held, messages, test::kContext);
}

std::vector<std::string> Addresses(const Converted<proxy::EndpointSlice>& converted) {
  std::vector<std::string> addresses;
  if (!converted.value) return {"refused"};
  for (const proxy::Endpoint& endpoint : converted.value->endpoints) {
    addresses.push_back(endpoint.address.ToString());
  }
  return addresses;
}

// Returns the findings of ConvertChange.
std::vector<std::string> Findings(const v1::EndpointDelta& delta) {
  v1::Change change;
  *change.mutable_endpoint_delta() = delta;
  const absl::StatusOr<ConvertedChange> converted =
      ConvertChange(testing::Encoded(change), test::kContext);
  if (!converted.ok()) return {std::string(converted.status().message())};
  EXPECT_FALSE(converted->change);
  EXPECT_EQ(converted->kind, proxy::Kind::kEndpointSlice);
  return test::Texts(converted->findings);
}

TEST(EndpointDeltaTest, EndpointsGoAndComeBehindTheOthers) {
  const struct {
    const char* name;
    std::vector<std::string> held;
    std::vector<Delta> deltas;
    std::vector<std::string> result;
  } cases[] = {
      {"nothing", {"10.1.0.1", "10.1.0.2"}, {{}}, {"10.1.0.1", "10.1.0.2"}},
      {"one goes", {"10.1.0.1", "10.1.0.2"}, {{.remove = {"10.1.0.1"}}}, {"10.1.0.2"}},
      {"the last one goes", {"10.1.0.1"}, {{.remove = {"10.1.0.1"}}}, {}},
      {"one that is not there goes", {"10.1.0.1"}, {{.remove = {"10.1.0.9"}}}, {"10.1.0.1"}},
      {"one comes", {"10.1.0.1"}, {{.put = {"10.1.0.0"}}}, {"10.1.0.1", "10.1.0.0"}},
      {"the first one comes", {}, {{.put = {"10.1.0.1"}}}, {"10.1.0.1"}},
      {"one is replaced",
       {"10.1.0.1", "10.1.0.2"},
       {{.put = {"10.1.0.1"}}},
       {"10.1.0.2", "10.1.0.1"}},
      {"one goes and comes",
       {"10.1.0.1", "10.1.0.2"},
       {{.remove = {"10.1.0.1"}, .put = {"10.1.0.1"}}},
       {"10.1.0.2", "10.1.0.1"}},
      {"one comes twice",
       {},
       {{.put = {"10.1.0.1", "10.1.0.2", "10.1.0.1"}}},
       {"10.1.0.2", "10.1.0.1"}},
      {"one goes twice", {"10.1.0.1"}, {{.remove = {"10.1.0.1", "10.1.0.1"}}}, {}},
      {"one comes and goes after it",
       {"10.1.0.1"},
       {{.put = {"10.1.0.2"}}, {.remove = {"10.1.0.2"}}},
       {"10.1.0.1"}},
      {"one goes and comes after it",
       {"10.1.0.1", "10.1.0.2"},
       {{.remove = {"10.1.0.1"}}, {.put = {"10.1.0.1"}}},
       {"10.1.0.2", "10.1.0.1"}},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Addresses(Changed(StoredWith(c.held), c.deltas)), c.result) << c.name;
  }
}

TEST(EndpointDeltaTest, WeightsComeWithTheEndpoint) {
  v1::EndpointSlice slice = StoredWith({"10.1.0.1", "10.1.0.2"});
  slice.mutable_endpoints(0)->set_weight(5);
  slice.mutable_endpoints(1)->set_weight(5);
  auto delta = std::make_shared<v1::EndpointDelta>(Message({.put = {"10.1.0.1", "10.1.0.2"}}));
  delta->mutable_upsert(0)->set_weight(0);
  const std::string held = Serialize(slice);
  const auto changed = ConvertDeltas("shop/web-1", &held, {delta}, test::kContext);
  ASSERT_NE(changed.value, nullptr);
  EXPECT_EQ(changed.value->endpoints.at(0).weight, 0);
  EXPECT_EQ(changed.value->endpoints.at(1).weight, 1) << "replaced, all of it";
  delta->mutable_upsert(0)->set_weight(1001);
  const auto rejected = ConvertDeltas("shop/web-1", &held, {delta}, test::kContext);
  EXPECT_EQ(rejected.value->endpoints.at(0).weight, 5);  // As stored.
  EXPECT_THAT(test::Texts(rejected.findings),
              ElementsAre(HasSubstr(
                  "endpoints[0].weight: Invalid value: 1001: must be between 0 and 1000")));
}

TEST(EndpointDeltaTest, S5_AddressesAreTheSameHoweverTheyAreWritten) {
  EXPECT_THAT(
      Addresses(Changed(StoredWith({"10.1.0.01", "10.1.0.2"}), {{.remove = {"10.01.0.1"}}})),
      ElementsAre("10.1.0.2"));
  EXPECT_THAT(Addresses(Changed(StoredWith({"fd00::1", "fd00::2"}),
                                {{.remove = {"FD00:0:0::0001"}, .put = {"fd00:0::2"}}})),
              ElementsAre("fd00::2"));
}

TEST(EndpointDeltaTest, S22_TheFirstAddressSaysWhichEndpointIsMeant) {
  v1::EndpointSlice slice = StoredWith({"10.1.0.1", "10.1.0.2"});
  slice.mutable_endpoints(0)->add_addresses("10.1.0.2");
  // Add an endpoint without addresses, which svcmapd keeps but does not use.
  slice.add_endpoints();
  const auto changed = Changed(slice, {{.remove = {"10.1.0.2"}}});
  EXPECT_THAT(Addresses(changed), ElementsAre("10.1.0.1"));
  EXPECT_THAT(test::Texts(changed.findings),
              ElementsAre(HasSubstr("endpoints[1].addresses: Required value")));
}

TEST(EndpointDeltaTest, ResultIsTheSameAsASliceThatWasSentWhole) {
  const auto changed = Changed(StoredWith({"10.1.0.1", "10.1.0.2"}),
                               {{.remove = {"10.1.0.1"}, .put = {"10.1.0.3"}}});
  const auto whole =
      test::ConvertEndpointSlice(StoredWith({"10.1.0.2", "10.1.0.3"}), test::kContext);
  ASSERT_TRUE(changed.value);
  EXPECT_EQ(changed.value->message, whole.value->message);
  EXPECT_EQ(changed.value->service_key, "shop/web");
  EXPECT_EQ(changed.value->key, "shop/web-1");
}

TEST(EndpointDeltaTest, ResultThatASliceMayNotHaveIsRejected) {
  std::vector<std::string> thousand;
  for (int i = 0; i < 1000; ++i) {
    thousand.push_back(absl::StrCat("10.1.", i / 250, ".", i % 250 + 1));
  }
  EXPECT_THAT(test::Texts(Changed(StoredWith(thousand), {{.put = {"10.2.0.1"}}}).findings),
              ElementsAre(HasSubstr("endpoints: Too many: 1001: must have at most 1000")));
  EXPECT_THAT(
      Addresses(Changed(StoredWith(thousand), {{.remove = {"10.1.0.1"}, .put = {"10.2.0.1"}}})),
      SizeIs(1000));
  EXPECT_THAT(
      test::Texts(Changed(StoredWith({"10.1.0.1"}), {{.put = {"fd00::1"}}}).findings),
      ElementsAre(
          "EndpointSlice shop/web-1 rejected: endpoints[1].addresses[0]: Invalid value: "
          "\"fd00::1\": must be an IPv4 address because addressType is \"IPv4\"; "
          "the previously accepted version, if any, stays in effect, without endpoints that "
          "are missing from the rejected version"));
}

TEST(EndpointDeltaTest, ARejectedResultOnlyRemovesEndpoints) {
  const auto changed =
      Changed(StoredWith({"10.1.0.1", "10.1.0.2"}),
              {{.remove = {"10.1.0.1"}, .put = {"fd00::1"}}, {.put = {"10.1.0.3"}}});
  EXPECT_THAT(test::Texts(changed.findings), SizeIs(1));
  EXPECT_THAT(Addresses(changed), ElementsAre("10.1.0.2"));
}

TEST(EndpointDeltaTest, WhatIsWrongWithTheDeltaAloneRejectsIt) {
  EXPECT_THAT(Findings(Message({})), IsEmpty());
  EXPECT_THAT(Findings(Message({.remove = {"10.1.0.1"}, .put = {"fd00::1"}})), IsEmpty());
  EXPECT_THAT(
      Findings(Message({.name = ""})),
      ElementsAre("EndpointSlice shop/(no name) rejected: name: Required value; the previously "
                  "accepted version, if any, stays in effect, without endpoints that are missing "
                  "from the rejected version"));
  EXPECT_THAT(Findings(Message({.name = "Web"})),
              ElementsAre(HasSubstr("name: Invalid value: \"Web\": must be a DNS-1123")));
  EXPECT_THAT(Findings(Message({.remove = {"10.1.0.1", ""}})),
              ElementsAre(HasSubstr("remove[1]: Invalid value: \"\": must be a valid IP address")));
  EXPECT_THAT(
      Findings(Message({.put = {"web.example"}})),
      ElementsAre(HasSubstr("upsert[0].addresses[0]: Invalid value: \"web.example\": must be")));
  v1::EndpointDelta empty = Message({});
  empty.add_upsert();
  EXPECT_THAT(
      Findings(empty),
      ElementsAre("EndpointSlice shop/web-1 rejected: upsert[0].addresses: Required value: the "
                  "first address identifies the endpoint; the previously accepted version, "
                  "if any, stays in effect, without endpoints that are missing from the rejected "
                  "version"));
}

// Returns the addresses of the stored endpoints after a rejected version, with "!" for endpoints
// that are not ready.
std::vector<std::string> Kept(const v1::EndpointSlice& stored, const v1::EndpointSlice& rejected) {
  const auto kept = ConvertDepartures(Serialize(stored), Serialize(rejected), test::kContext);
  std::vector<std::string> addresses;
  for (const proxy::Endpoint& endpoint : kept->endpoints) {
    addresses.push_back(endpoint.address.ToString() + (endpoint.conditions.ready ? "" : "!"));
  }
  // The result is the same as a slice that a controller sends.
  const v1::EndpointSlice again =
      ToObject(proxy::Kind::kEndpointSlice, kept->message).endpoint_slice();
  EXPECT_EQ(test::ConvertEndpointSlice(again, test::kContext).value->message, kept->message);
  return addresses;
}

TEST(DeparturesTest, ConditionsOfTheRejectedVersionApply) {
  v1::EndpointSlice stored = StoredWith({"10.1.0.1", "10.1.0.2"});
  stored.mutable_endpoints(1)->mutable_conditions()->set_ready(false);
  stored.mutable_endpoints(1)->set_node_name("n1");
  v1::EndpointSlice rejected = StoredWith({"10.1.0.1", "10.1.0.1", "10.1.0.2"});
  rejected.mutable_endpoints(0)->mutable_conditions()->set_terminating(true);
  rejected.mutable_endpoints(1)->mutable_conditions()->set_ready(false);
  EXPECT_THAT(Kept(stored, rejected), ElementsAre("10.1.0.1!", "10.1.0.2"));
}

TEST(DeparturesTest, NothingStaysIfTheSliceBelongsToAnotherService) {
  const v1::EndpointSlice stored = StoredWith({"10.1.0.1"});
  v1::EndpointSlice other = stored;
  (*other.mutable_metadata()->mutable_labels())["kubernetes.io/service-name"] = "api";
  EXPECT_THAT(Kept(stored, other), IsEmpty());
  other = stored;
  other.set_address_type("");
  EXPECT_THAT(Kept(stored, other), ElementsAre("10.1.0.1"));
}

}  // namespace
}  // namespace svcmap::api
