#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/kube/wire/decode.h"
#include "svcmap/v1/control.pb.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/kube/wire_bytes.h"

namespace svcmap::kube::test {
namespace {

using ::testing::HasSubstr;
using EventType = WatchEvent::Type;

// Returns a Service in protobuf and JSON. wire_list_test.cc tests all fields.
std::string ServiceBytes(const char* name, const char* resource_version) {
  return pb::Envelope("v1", "Service",
                      pb::Bytes(1, pb::ObjectMeta(name, "shop", resource_version)) +
                          pb::Bytes(2, pb::Bytes(3, "10.96.0.10") + pb::Bytes(4, "ClusterIP")));
}

std::string ServiceJson(const char* name, const char* resource_version) {
  return absl::StrCat(R"({"kind":"Service","apiVersion":"v1","metadata":{"name":")", name,
                      R"(","namespace":"shop","resourceVersion":")", resource_version,
                      R"(","annotations":{"note":"}{\"\\"}},"spec":{"clusterIP":"10.96.0.10"}})");
}

std::string ProtobufStream() {
  const std::string expired = pb::Envelope(
      "v1", "Status", pb::Bytes(3, "too old") + pb::Bytes(4, "Expired") + pb::Int(6, 410));
  // A bookmark contains the kind and version of the resource, and the fields of an otherwise empty
  // object.
  const std::string bookmark = pb::Envelope(
      "v1", "Service", pb::Bytes(1, pb::Bytes(1, "") + pb::Bytes(6, "13")) + pb::Bytes(2, ""));
  return pb::Frame("ADDED", ServiceBytes("web", "10")) +
         pb::Frame("MODIFIED", ServiceBytes("web", "11")) +
         pb::Frame("DELETED", ServiceBytes("web", "12")) + pb::Frame("BOOKMARK", bookmark) +
         pb::Frame("ERROR", expired);
}

std::string JsonStream(const char* between) {
  const auto event = [between](const char* type, const std::string& object) {
    return absl::StrCat(R"({"type":")", type, R"(","object":)", object, "}", between);
  };
  return event("ADDED", ServiceJson("web", "10")) + event("MODIFIED", ServiceJson("web", "11")) +
         event("DELETED", ServiceJson("web", "12")) +
         event("BOOKMARK",
               R"({"kind":"Service","apiVersion":"v1","metadata":{"resourceVersion":"13"}})") +
         event("ERROR", R"({"kind":"Status","message":"too old","reason":"Expired","code":410})");
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

void ExpectEventsInAnyPieces(ContentType type, const std::string& stream) {
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    WatchDecoder decoder(Resource::kServices, type);
    std::vector<WatchEvent> events;
    ASSERT_OK(decoder.Feed(stream.substr(0, cut), events));
    ASSERT_OK(decoder.Feed(stream.substr(cut), events));
    ExpectEvents(events);
  }
  WatchDecoder decoder(Resource::kServices, type);
  std::vector<WatchEvent> events;
  for (const char byte : stream) ASSERT_OK(decoder.Feed(std::string_view(&byte, 1), events));
  ExpectEvents(events);
}

TEST(WireWatchTest, ProtobufFramesMayBeCutAnywhere) {
  ExpectEventsInAnyPieces(ContentType::kProtobuf, ProtobufStream());
}

TEST(WireWatchTest, JsonObjectsMayBeCutAnywhereAndStandInLinesOrNot) {
  ExpectEventsInAnyPieces(ContentType::kJson, JsonStream("\n"));
  ExpectEventsInAnyPieces(ContentType::kJson, JsonStream(""));
  ExpectEventsInAnyPieces(ContentType::kJson, "\r\n" + JsonStream("\r\n \n"));
}

TEST(WireWatchTest, AnErrorWithoutAStatusIsAnError) {
  for (const auto& [type, stream] :
       {std::pair(ContentType::kProtobuf, pb::Frame("ERROR", "")),
        {ContentType::kJson, std::string(R"({"type":"ERROR","object":{"kind":"Pod"}})")},
        {ContentType::kJson, std::string(R"({"type":"ERROR"})")}}) {
    WatchDecoder decoder(Resource::kServices, type);
    std::vector<WatchEvent> events;
    ASSERT_OK(decoder.Feed(stream, events));
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].type, EventType::kError);
    EXPECT_EQ(events[0].status.message, "the event contains no Status");
  }
}

TEST(WireWatchTest, WhatIsNoEventEndsTheWatchBehindTheEventsThatWere) {
  const struct {
    const char* name;
    ContentType type;
    std::string bytes;
    const char* error;
  } cases[] = {
      {"empty event", ContentType::kProtobuf, std::string(4, '\0'), "event: unknown type "},
      {"unknown type", ContentType::kProtobuf, pb::Frame("SYNC", ServiceBytes("a", "1")),
       R"(event: unknown type "SYNC")"},
      {"bare object", ContentType::kProtobuf,
       pb::Frame("ADDED", pb::Bytes(1, pb::ObjectMeta("a", "b", "1"))),
       "event: not a message in the Kubernetes protobuf encoding"},
      {"other kind", ContentType::kProtobuf, pb::Frame("ADDED", pb::Envelope("v1", "Pod", "")),
       R"(event: unexpected kind "Pod" of apiVersion "v1")"},
      {"no name", ContentType::kProtobuf, pb::Frame("DELETED", pb::Envelope("v1", "Service", "")),
       "event: object.metadata.name: Required value"},
      {"no version", ContentType::kProtobuf,
       pb::Frame("BOOKMARK", pb::Envelope("v1", "Service", "")),
       "event: object.metadata.resourceVersion: Required value"},
      {"no JSON", ContentType::kJson, "[]", R"(event: expected a JSON object, received "[]")"},
      {"wrong brackets", ContentType::kJson, "{]", "event: invalid JSON"},
      {"JSON of unknown type", ContentType::kJson, "{}", "event: unknown type "},
      {"JSON without object", ContentType::kJson, R"({"type":"ADDED"})",
       "event: object: Required value"},
      {"JSON not UTF-8", ContentType::kJson, "{\"type\":\"\xff\"}", "event: must be UTF-8 text"},
      {"JSON bookmark without version", ContentType::kJson,
       R"({"type":"BOOKMARK","object":{"kind":"Service"}})",
       "event: object.metadata.resourceVersion: Required value"},
      {"JSON bookmark of another kind", ContentType::kJson,
       R"({"type":"BOOKMARK","object":{"kind":"Pod"}})", R"(event: object: unexpected kind "Pod")"},
  };
  for (const auto& test : cases) {
    const bool protobuf = test.type == ContentType::kProtobuf;
    WatchDecoder decoder(Resource::kServices, test.type);
    std::vector<WatchEvent> events;
    const absl::Status status =
        decoder.Feed((protobuf ? ProtobufStream() : JsonStream("\n")) + test.bytes, events);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << test.name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(test.error)) << test.name;
    EXPECT_EQ(events.size(), 5u) << test.name;
  }
}

TEST(WireWatchTest, AnEventThatNeverEndsIsRejectedAtSixteenMebibytes) {
  std::vector<WatchEvent> events;
  WatchDecoder protobuf(Resource::kServices, ContentType::kProtobuf);
  EXPECT_OK(protobuf.Feed(std::string("\x01\x00\x00\x00", 4), events));
  EXPECT_EQ(WatchDecoder(Resource::kServices, ContentType::kProtobuf)
                .Feed(std::string("\x01\x00\x00\x01", 4), events)
                .code(),
            absl::StatusCode::kResourceExhausted);
  WatchDecoder json(Resource::kServices, ContentType::kJson);
  const std::string piece(size_t{1} << 20, 'x');
  ASSERT_OK(json.Feed("{\"", events));
  for (int i = 0; i < 15; ++i) ASSERT_OK(json.Feed(piece, events));
  EXPECT_EQ(json.Feed(piece, events).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(events.empty());
}

}  // namespace
}  // namespace svcmap::kube::test
