// Tests of the fake API server that the tests of svcmap-kube use.
#include "tests/support/api_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "tests/support/kube_encoding.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

namespace svcmap::testing {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::StartsWith;

constexpr char kServices[] =
    "/api/v1/services?labelSelector=%21service.kubernetes.io%2Fservice-proxy-name"
    "&fieldSelector=spec.clusterIP%21%3DNone";

class ApiServerTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(server_, FakeApiServer::Start()); }

  httplib::Result Get(const std::string& path, const std::string& accept = "application/json") {
    httplib::SSLClient client("127.0.0.1", server_->port());
    client.enable_server_certificate_verification(false);
    client.set_read_timeout(10);
    return client.Get(path, {{"Accept", accept}});
  }
  json GetJson(const std::string& path) {
    const httplib::Result result = Get(path);
    return result ? json::parse(result->body, nullptr, false) : json();
  }
  // Returns the events of a watch that the server ends, for example "ADDED a" or "ERROR 410".
  std::vector<std::string> Events(const std::string& path) {
    std::vector<std::string> events;
    const httplib::Result result = Get(path);
    if (!result) return {"no answer"};
    for (const auto line : absl::StrSplit(result->body, '\n', absl::SkipEmpty())) {
      const json event = json::parse(std::string(line));
      const json& object = event["object"];
      const json& what = event["type"] == "ERROR"      ? object["code"]
                         : event["type"] == "BOOKMARK" ? object["metadata"]["resourceVersion"]
                                                       : object["metadata"]["name"];
      events.push_back(event["type"].get<std::string>() + " " +
                       (what.is_string() ? what.get<std::string>() : what.dump()));
    }
    return events;
  }
  static std::vector<std::string> Names(const json& list) {
    std::vector<std::string> names;
    for (const json& item : list["items"]) names.push_back(item["metadata"]["name"]);
    return names;
  }
  std::string Version() { return std::to_string(server_->version()); }
  static v1::Object Labeled(const std::string& name, const std::string& label) {
    v1::Object object = AService("shop/" + name).ClusterIp("10.96.0.7").Port("http", 80);
    (*object.mutable_service()->mutable_metadata()->mutable_labels())[label] = "x";
    return object;
  }

  std::unique_ptr<FakeApiServer> server_;
};

TEST_F(ApiServerTest, AListHasWhatItsSelectorsSay) {
  server_->Put({AService("shop/web").ClusterIp("10.96.0.10").Port("http", 80),
                AService("shop/none").ClusterIp("None").Port("http", 80),
                Labeled("other", "service.kubernetes.io/service-proxy-name")});
  const json list = GetJson(kServices);
  EXPECT_THAT(Names(list), ElementsAre("web"));
  EXPECT_EQ(list["kind"], "ServiceList");
  EXPECT_EQ(list["metadata"]["resourceVersion"], Version());
  EXPECT_EQ(list["items"][0]["spec"]["clusterIP"], "10.96.0.10");
  EXPECT_THAT(Names(GetJson("/api/v1/services?fieldSelector=metadata.name%3Dother")),
              ElementsAre("other"));
  EXPECT_EQ(Get("/api/v1/services?fieldSelector=spec.color%3Dred")->status, 400);
}

// The expected bytes follow from the field numbers of the Kubernetes API.
TEST_F(ApiServerTest, ProtobufHasThePublicFieldNumbers) {
  v1::Object cidr;
  cidr.mutable_service_cidr()->mutable_metadata()->set_name("k");
  cidr.mutable_service_cidr()->mutable_spec()->add_cidrs("10.0.0.0/8");
  const std::string item = EncodeItem(Encoding::kProtobuf, cidr, 7);
  const std::string body = EncodeObject(Encoding::kProtobuf, Collection::kServiceCidrs, item);
  const std::string magic("k8s\0", 4);
  const std::string type = "\x0a\x14networking.k8s.io/v1\x12\x0bServiceCIDR";
  EXPECT_THAT(body, StartsWith(magic + "\x0a" + static_cast<char>(type.size()) + type));
  // metadata starts with the fields name, generateName, namespace and selfLink.
  EXPECT_THAT(item.substr(item.find("\x0a\x01k")),
              StartsWith(std::string("\x0a\x01k\x12\x00\x1a\x00\x22\x00\x2a", 10)));
  EXPECT_NE(item.find("\x32\x01"
                      "7"),
            std::string::npos);  // metadata contains the field resourceVersion.
  EXPECT_NE(item.find("\x12\x0c\x0a\x0a"
                      "10.0.0.0/8"),
            std::string::npos);  // spec contains the field cidrs.
  const std::string event = EncodeEvent(Encoding::kProtobuf, "ADDED", "o");
  EXPECT_EQ(event, std::string("\x00\x00\x00\x0c\x0a\x05"
                               "ADDED\x12\x03\x0a\x01o",
                               16));
}

TEST_F(ApiServerTest, PagesAreOfOneVersionAndCanExpire) {
  for (const char* name : {"shop/a", "shop/b", "shop/c"}) {
    server_->Put({AService(name).ClusterIp("10.96.0.10").Port("http", 80)});
  }
  const json first = GetJson("/api/v1/services?limit=2");
  EXPECT_THAT(Names(first), ElementsAre("a", "b"));
  EXPECT_EQ(first["metadata"]["remainingItemCount"], 1);
  server_->Put({AService("shop/d").ClusterIp("10.96.0.11").Port("http", 80)});
  const std::string rest =
      "/api/v1/services?limit=2&continue=" + first["metadata"]["continue"].get<std::string>();
  const json second = GetJson(rest);
  EXPECT_THAT(Names(second), ElementsAre("c"));
  EXPECT_EQ(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
  EXPECT_FALSE(second["metadata"].contains("continue"));
  // The continue token already contains the version, so the request must not contain a version.
  EXPECT_EQ(Get(rest + "&resourceVersion=" + Version())->status, 400);
  server_->ForgetPages();
  EXPECT_EQ(Get(rest)->status, 410);
}

TEST_F(ApiServerTest, AVersionAndALimitAreForExactlyThatVersion) {
  server_->Put({AService("shop/web").ClusterIp("10.96.0.10").Port("http", 80)});
  const std::string old = "/api/v1/services?resourceVersion=" + Version();
  EXPECT_THAT(Names(GetJson(old + "&limit=2")), ElementsAre("web"));
  server_->Put({AService("shop/new").ClusterIp("10.96.0.11").Port("http", 80)});
  EXPECT_EQ(Get(old + "&limit=2")->status, 410);  // The server compacts this version immediately.
  EXPECT_THAT(Names(GetJson(old)), ElementsAre("new", "web"));
}

TEST_F(ApiServerTest, ACacheThatIsFrozenServesWhoDoesNotAskForMore) {
  server_->FreezeCache();
  server_->Put({AService("shop/web").ClusterIp("10.96.0.10").Port("http", 80)});
  EXPECT_THAT(Names(GetJson("/api/v1/services?limit=500&resourceVersion=0")), ElementsAre());
  EXPECT_EQ(Get("/api/v1/services?resourceVersion=" + Version())->status, 504);
  EXPECT_THAT(Names(GetJson("/api/v1/services?limit=500")), ElementsAre("web"));
  server_->Heal();
  EXPECT_THAT(Names(GetJson("/api/v1/services?resourceVersion=0")), ElementsAre("web"));
}

TEST_F(ApiServerTest, AWatchTellsWhatHappenedSinceItsVersion) {
  const std::string label = "service.kubernetes.io/service-proxy-name";
  server_->Put({AService("shop/old").ClusterIp("10.96.0.10").Port("http", 80)});
  const std::string watch =
      std::string(kServices) +
      "&watch=1&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion=" + Version();
  v1::Object web = AService("shop/web").ClusterIp("10.96.0.10").Port("http", 80);
  server_->Put({web});
  (*web.mutable_service()->mutable_metadata()->mutable_labels())[label] = "";
  server_->Put({web, Labeled("foreign", label)});
  web.mutable_service()->mutable_metadata()->clear_labels();
  server_->Put({web});
  server_->Remove({ServiceRef("shop/old")});
  EXPECT_THAT(Events(watch), ElementsAre("ADDED web", "DELETED web", "ADDED web", "DELETED old",
                                         "BOOKMARK " + Version()));
  server_->ForgetEvents();
  EXPECT_THAT(Events(watch), ElementsAre("ERROR 410"));
}

TEST_F(ApiServerTest, FaultsStrikeAsOftenAsTheyAreReported) {
  server_->Fail({.code = 429, .retry_after = 3, .times = 1});
  const httplib::Result rejected = Get(kServices);
  ASSERT_TRUE(rejected);
  EXPECT_EQ(rejected->status, 429);
  EXPECT_EQ(rejected->get_header_value("Retry-After"), "3");
  EXPECT_EQ(Get(kServices)->status, 200);

  server_->Fail({.what = Fault::What::kNoProtobuf});
  EXPECT_EQ(Get(kServices, "application/vnd.kubernetes.protobuf,application/json")->status, 406);
  EXPECT_EQ(Get(kServices)->status, 200);
  server_->Heal();
  const httplib::Result protobuf =
      Get(kServices, "application/vnd.kubernetes.protobuf,application/json");
  EXPECT_EQ(protobuf->get_header_value("Content-Type"), "application/vnd.kubernetes.protobuf");

  server_->RequireToken("secret");
  EXPECT_EQ(Get(kServices)->status, 401);
}

TEST_F(ApiServerTest, ItEndsAllConnectionsAndComesBackAtItsPort) {
  server_->Put({AService("shop/web").ClusterIp("10.96.0.10").Port("http", 80)});
  std::thread watcher(
      [&] { EXPECT_FALSE(Get(std::string(kServices) + "&watch=1&resourceVersion=" + Version())); });
  EXPECT_TRUE(WaitUntil([&] { return server_->open_watches() > 0; }));
  server_->Stop();
  watcher.join();
  EXPECT_FALSE(Get(kServices));
  ASSERT_OK(server_->StartAgain());
  EXPECT_THAT(Names(GetJson(kServices)), ElementsAre("web"));
}

}  // namespace
}  // namespace svcmap::testing
