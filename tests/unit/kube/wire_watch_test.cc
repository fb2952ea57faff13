#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/kube/wire/decode.h"
#include "svcmap/v1/control.pb.h"
#include "tests/support/kube_encoding.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/kube/wire_bytes.h"

namespace svcmap::kube::test {
namespace {

using svcmap::testing::EncodeEvent;
using svcmap::testing::Enveloped;
using ::testing::HasSubstr;
using EventType = WatchEvent::Type;

// wire_list_test.cc tests all fields.
std::string ServiceBytes(const char* name, const char* resource_version) {
  return Enveloped("v1", "Service",
                   pb::Bytes(1, pb::ObjectMeta(name, "shop", resource_version)) +
                       pb::Bytes(2, pb::Bytes(3, "10.96.0.10") + pb::Bytes(4, "ClusterIP")));
}

std::string ProtobufStream() {
  const std::string expired = Enveloped(
      "v1", "Status", pb::Bytes(3, "too old") + pb::Bytes(4, "Expired") + pb::Int(6, 410));
  // A bookmark contains the kind and version of the resource, and the fields of an otherwise empty
  // object.
  const std::string bookmark = Enveloped(
      "v1", "Service", pb::Bytes(1, pb::Bytes(1, "") + pb::Bytes(6, "13")) + pb::Bytes(2, ""));
  return EncodeEvent("ADDED", ServiceBytes("web", "10")) +
         EncodeEvent("MODIFIED", ServiceBytes("web", "11")) +
         EncodeEvent("DELETED", ServiceBytes("web", "12")) + EncodeEvent("BOOKMARK", bookmark) +
         EncodeEvent("ERROR", expired);
}

void ExpectEvents(const std::vector<WatchEvent>& events) {
  ASSERT_EQ(events.size(), 5u);
  const EventType types[] = {EventType::kAdded, EventType::kModified, EventType::kDeleted,
                             EventType::kBookmark, EventType::kError};
  const char* versions[] = {"10", "11", "12", "13", ""};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(events[i].type, types[i]);
    EXPECT_EQ(events[i].item.resource_version, versions[i]);
    EXPECT_EQ(events[i].item.key, i < 3 ? "shop/web" : "");
  }
  v1::Change modified;
  ASSERT_TRUE(modified.ParseFromString(events[1].item.change));
  EXPECT_EQ(modified.service().spec().cluster_ip(), "10.96.0.10");
  EXPECT_EQ(events[2].item.change, "");
  EXPECT_EQ(events[3].item.change, "");
  EXPECT_EQ(events[4].status.code, 410);
  EXPECT_EQ(events[4].status.reason, "Expired");
  EXPECT_EQ(events[4].status.message, "too old");
}

TEST(WireWatchTest, ProtobufFramesMayBeCutAnywhere) {
  const std::string stream = ProtobufStream();
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    WatchDecoder decoder(Resource::kServices);
    std::vector<WatchEvent> events;
    ASSERT_OK(decoder.Feed(stream.substr(0, cut), events));
    ASSERT_OK(decoder.Feed(stream.substr(cut), events));
    ExpectEvents(events);
  }
  WatchDecoder decoder(Resource::kServices);
  std::vector<WatchEvent> events;
  for (const char byte : stream) ASSERT_OK(decoder.Feed(std::string_view(&byte, 1), events));
  ExpectEvents(events);
}

TEST(WireWatchTest, AnErrorWithoutAStatusIsAnError) {
  for (const std::string& object : {std::string(), Enveloped("v1", "Pod", "")}) {
    WatchDecoder decoder(Resource::kServices);
    std::vector<WatchEvent> events;
    ASSERT_OK(decoder.Feed(EncodeEvent("ERROR", object), events));
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].type, EventType::kError);
    EXPECT_EQ(events[0].status.message, "the event contains no Status");
  }
}

TEST(WireWatchTest, WhatIsNoEventEndsTheWatchBehindTheEventsThatWere) {
  const struct {
    const char* name;
    std::string bytes;
    const char* error;
  } cases[] = {
      {"empty event", std::string(4, '\0'), "event: unknown type "},
      {"unknown type", EncodeEvent("SYNC", ServiceBytes("a", "1")),
       R"(event: unknown type "SYNC")"},
      {"bare object", EncodeEvent("ADDED", pb::Bytes(1, pb::ObjectMeta("a", "b", "1"))),
       "event: not a message in the Kubernetes protobuf encoding"},
      {"other kind", EncodeEvent("ADDED", Enveloped("v1", "Pod", "")),
       R"(event: unexpected kind "Pod" of apiVersion "v1")"},
      {"no name", EncodeEvent("DELETED", Enveloped("v1", "Service", "")),
       "event: object.metadata.name: Required value"},
      {"no version", EncodeEvent("BOOKMARK", Enveloped("v1", "Service", "")),
       "event: object.metadata.resourceVersion: Required value"},
      {"bookmark of another kind", EncodeEvent("BOOKMARK", Enveloped("v1", "Pod", "")),
       R"(event: unexpected kind "Pod" of apiVersion "v1")"},
  };
  for (const auto& test : cases) {
    WatchDecoder decoder(Resource::kServices);
    std::vector<WatchEvent> events;
    const absl::Status status = decoder.Feed(ProtobufStream() + test.bytes, events);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << test.name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(test.error)) << test.name;
    EXPECT_EQ(events.size(), 5u) << test.name;
  }
}

TEST(WireWatchTest, AnEventOfMoreThanSixteenMebibytesIsRejected) {
  std::vector<WatchEvent> events;
  WatchDecoder longest(Resource::kServices);
  EXPECT_OK(longest.Feed(std::string("\x01\x00\x00\x00", 4), events));
  WatchDecoder too_long(Resource::kServices);
  EXPECT_EQ(too_long.Feed(std::string("\x01\x00\x00\x01", 4), events).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(events.empty());
}

}  // namespace
}  // namespace svcmap::kube::test
