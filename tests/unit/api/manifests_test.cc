#include "api/manifests/manifests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "api/log/printable.h"
#include "google/protobuf/util/message_differencer.h"
#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

template <typename T>
std::vector<std::string> Texts(const std::vector<T>& messages) {
  std::vector<std::string> texts;
  for (const T& message : messages) texts.push_back(message.ToString());
  return texts;
}

Manifests Read(std::string_view text) { return ReadManifests(text, "x.yaml"); }

std::string Name(const ManifestObject& object) {
  const v1::Object& o = object.object;
  return o.has_service()          ? o.service().metadata().name()
         : o.has_endpoint_slice() ? o.endpoint_slice().metadata().name()
         : o.has_node()           ? o.node().metadata().name()
                                  : o.service_cidr().metadata().name();
}

std::vector<std::string> Names(const Manifests& manifests) {
  std::vector<std::string> names;
  for (const ManifestObject& object : manifests.objects) names.push_back(Name(object));
  return names;
}

constexpr char kEverything[] = R"(
apiVersion: v1
kind: Service
metadata:
  namespace: shop
  name: web
  creationTimestamp: "2026-01-31T12:00:00Z"
  labels: {"yes": "no", empty: "", n: "12", "null": "~"}
  annotations: {note: "line 1\nline 2 \"quoted\" \\ ü \u0007", url: "a: b # c"}
spec:
  clusterIP: fd00::10
  clusterIPs: ["fd00::10"]
  internalTrafficPolicy: Cluster
  sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}
  ports: [{name: dns, port: 53, protocol: UDP}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: shop, name: web-1}
addressType: IPv4
ports: [{name: "", port: 8080}]
endpoints: [{addresses: [10.1.0.1], conditions: {ready: false}, hints: {forZones: [{name: za}]}}]
---
apiVersion: v1
kind: Node
metadata: {name: n1}
spec: {podCIDRs: [10.1.0.0/24], taints: [{key: a, effect: NoSchedule}]}
---
apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: kubernetes}
spec: {cidrs: [10.96.0.0/12]}
)";

TEST(ManifestsTest, ReadsEveryKindAndSaysWhereItStood) {
  const Manifests manifests = Read(kEverything);
  EXPECT_THAT(Texts(manifests.errors), IsEmpty());
  EXPECT_THAT(Names(manifests), ElementsAre("web", "web-1", "n1", "kubernetes"));
  EXPECT_EQ(manifests.objects[1].document, 2);
  EXPECT_EQ(manifests.objects[1].line, 17);
  EXPECT_EQ(manifests.objects[1].source, "x.yaml");
  const v1::Service& web = manifests.objects[0].object.service();
  EXPECT_EQ(web.metadata().creation_timestamp().seconds(), 1769860800);
  EXPECT_EQ(web.spec().session_affinity_config().client_ip().timeout_seconds(), 60);
  EXPECT_EQ(web.metadata().labels().at("yes"), "no");
}

TEST(ManifestsTest, AbsentEmptyAndNullAreDistinguished) {
  const Manifests manifests = Read(R"(
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: null}
ports: [{name: "", port: null}, {}]
endpoints: [{conditions: {ready: false, serving: null}}, {nodeName: ""}]
)");
  ASSERT_THAT(manifests.objects, SizeIs(1));
  const v1::EndpointSlice& slice = manifests.objects[0].object.endpoint_slice();
  EXPECT_TRUE(slice.ports(0).has_name());
  EXPECT_FALSE(slice.ports(0).has_port());
  EXPECT_TRUE(slice.ports(1).has_name());  // The API server would return an empty port name.
  EXPECT_TRUE(slice.endpoints(0).conditions().has_ready());
  EXPECT_FALSE(slice.endpoints(0).conditions().has_serving());
  EXPECT_FALSE(slice.endpoints(0).has_node_name());
  EXPECT_TRUE(slice.endpoints(1).has_node_name());
}

TEST(ManifestsTest, WhatAliasesStandForIsBoundedOverAllDocuments) {
  std::string list = "[x";
  for (int i = 1; i < 100; ++i) list += ", x";
  std::string aliases = "[*a";
  for (int i = 1; i < 300; ++i) aliases += ", *a";
  const std::string document = absl::StrCat("---\na: &a ", list, "]\nb: ", aliases, "]\n");
  std::string text;
  for (int i = 0; i < 5; ++i) text += document;
  EXPECT_THAT(Texts(Read(text).errors),
              ElementsAre(HasSubstr("document 1"), HasSubstr("document 2"), HasSubstr("document 3"),
                          HasSubstr("document 4, line 12: aliases must not expand to more than"),
                          HasSubstr("document 5, line 15: aliases must not expand to more than")));
}

TEST(ManifestsTest, StringsOfEveryKindAreTheSameWhenWrittenAndReadAgain) {
  for (const std::string_view text :
       {"\\u0000", "\\u001b",  "\\u007f", "\\u0085", "\\u00a0",        "\\u2028",
        "\\ufeff", "\\ufdd0",  "\\ufffe", "\\uffff", "\\udbff\\udfff", "\\ud83d\\ude00",
        "ü",       "a\\r\\nb", "---",     "- a",     "1234",           "True",
        "yes",     "null",     "~",       "a: b # c"}) {
    const Manifests manifests =
        Read(absl::StrCat(R"({"apiVersion": "v1", "kind": "Node", "metadata": {"labels": {")",
                          std::string(text), R"(": ")", std::string(text), R"("}}})"));
    ASSERT_THAT(manifests.objects, SizeIs(1)) << text;
    const v1::Object& object = manifests.objects[0].object;
    for (const std::string& written : {ManifestYaml({object}), ManifestJson({object})}) {
      const Manifests again = Read(written);
      ASSERT_THAT(again.objects, SizeIs(1)) << written;
      EXPECT_TRUE(
          google::protobuf::util::MessageDifferencer::Equals(again.objects[0].object, object))
          << written;
    }
  }
}

TEST(ManifestsTest, LongKeysAreTheSameWhenWrittenAndReadAgain) {
  v1::Object object;
  object.mutable_node()->mutable_metadata()->set_name("n1");
  (*object.mutable_node()->mutable_metadata()->mutable_labels())[std::string(2000, 'k')] = "v";
  const Manifests again = Read(ManifestYaml({object}));
  ASSERT_THAT(Texts(again.errors), IsEmpty());
  ASSERT_THAT(again.objects, SizeIs(1));
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(again.objects[0].object, object));
}

TEST(ManifestsTest, EscapesOfCharactersOverAsciiAreThoseCharacters) {
  const Manifests manifests = Read(R"(
apiVersion: v1
kind: Node
metadata: {name: n1, annotations: {note: "\_\N\xe9\u00fc\L"}}
)");
  ASSERT_THAT(Texts(manifests.errors), IsEmpty());
  EXPECT_EQ(manifests.objects.at(0).object.node().metadata().annotations().at("note"),
            "\u00a0\u0085\u00e9\u00fc\u2028");
  const Manifests bad = Read("note: \"\\\u00f4\"");
  ASSERT_EQ(bad.errors.size(), 1u);
  EXPECT_THAT(bad.errors[0].reason, ::testing::HasSubstr("unknown escape character"));
  for (std::string_view rest = bad.errors[0].reason; !rest.empty();) {
    const size_t length = Utf8Length(rest);
    ASSERT_GT(length, 0u) << rest;
    rest.remove_prefix(length);
  }
}

TEST(ManifestsTest, NamespaceIsDefaultWhereNoneIsGiven) {
  const Manifests manifests = Read("apiVersion: v1\nkind: Service\nmetadata: {name: web}\n");
  EXPECT_EQ(manifests.objects.at(0).object.service().metadata().namespace_(), "default");
}

TEST(ManifestsTest, ListsAreOpenedAndTypedListsNameTheirItemsKind) {
  EXPECT_THAT(Names(Read(R"(
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: a}}
- {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Node, metadata: {name: b}}]}
)")),
              ElementsAre("a", "b"));
  EXPECT_THAT(Names(Read(R"({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSliceList",
                             "items": [{"metadata": {"name": "c"}}]})")),
              ElementsAre("c"));
  EXPECT_THAT(Names(Read("apiVersion: v1\nkind: List\nitems: null\n")), IsEmpty());
}

TEST(ManifestsTest, AListWithoutItemsIsRejected) {
  for (const char* text : {"apiVersion: v1\nkind: List\nitem: []\n", "apiVersion: v1\nkind: List\n",
                           "apiVersion: v1\nkind: ServiceList\n"}) {
    EXPECT_THAT(Texts(Read(text).errors),
                ElementsAre(HasSubstr("List: items: Required value: must be a list")))
        << text;
  }
  EXPECT_THAT(Texts(Read("apiVersion: v1\nkind: List\nitems: []\n").errors), IsEmpty());
}

TEST(ManifestsTest, AliasesAreFollowed) {
  const Manifests manifests = Read(R"(
apiVersion: v1
kind: Service
metadata: &m {name: web, labels: &l {a: b}, annotations: *l}
spec: {ports: [&p {port: 80}, *p]}
)");
  ASSERT_THAT(manifests.objects, SizeIs(1));
  EXPECT_EQ(manifests.objects[0].object.service().metadata().annotations().at("a"), "b");
  EXPECT_EQ(manifests.objects[0].object.service().spec().ports(1).port(), 80);
  for (const char* text : {"a: &a [*a]\n", "b: &a 1\na: &a [*a]\n"}) {
    EXPECT_THAT(
        Texts(Read(text).errors),
        ElementsAre(HasSubstr("an alias must not refer to a value that contains the alias")));
  }
  EXPECT_THAT(Texts(Read("a: &a 1\nb: *b\n").errors),
              ElementsAre("x.yaml: document 1, line 2: Not found: \"b\": an alias must refer to an "
                          "anchor before the alias"));
}

std::string Repeat(std::string_view piece, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += piece;
  return text;
}

// Returns the additional memory of a process that reads `text`, in MiB.
long PeakMemoryOfReading(const std::string& text) {
  const auto peak_of = [](const std::function<void()>& run) {
    const pid_t child = fork();
    if (child == 0) {
      run();
      _exit(0);
    }
    rusage usage = {};
    int status = -1;
    EXPECT_EQ(wait4(child, &status, 0, &usage), child);
    EXPECT_EQ(status, 0);
    return usage.ru_maxrss / 1024;
  };
  const long before = peak_of([] {});
  return peak_of([&text] { Read(text); }) - before;
}

// A value needs about 110 bytes in the tree of a document.
TEST(ManifestsTest, MemoryForNestedAndRepeatedStructuresIsLimited) {
  constexpr size_t kBytes = 3'000'000;
  const struct {
    const char* name;
    std::string text;
    long mebibytes;
  } cases[] = {
      {"nested lists", Repeat("[", kBytes), 10},
      {"nested lists, one on a line", Repeat("[\n", kBytes), 10},
      {"nested lists with comments", Repeat("[ # x\n", kBytes), 10},
      {"nested lists with values", Repeat("[1, ", kBytes), 10},
      {"nested lists in a list", "- a\n- " + Repeat("[", kBytes), 10},
      {"nested lists after quotes", "- ['x', \"y\", " + Repeat("[", kBytes), 10},
      {"nested lists after a block scalar", "a: |\n  b\nc:\n- " + Repeat("[", kBytes), 10},
      {"nested maps", "--- " + Repeat("{", kBytes), 10},
      {"nested maps and lists", "- " + Repeat("[{a: ", kBytes), 10},
      {"nested maps with keys", "a: " + Repeat("{a: ", kBytes), 10},
      {"nested keys", "- " + Repeat("{? ", kBytes), 10},
      {"nested lists as keys", "- " + Repeat("{? [", kBytes), 10},
      {"long list in brackets", "- [" + Repeat("1,", kBytes), 180},
      {"nested block lists", Repeat("- ", kBytes), 10},
      {"nested block keys", Repeat("? ", kBytes), 10},
      {"tags", Repeat("!a ", kBytes), 120},
      {"anchors", Repeat("- &a b\n", kBytes), 120},
      {"block list", Repeat("-\n", kBytes), 180},
      {"long key", std::string(kBytes, 'a') + ": 1\n", 40},
      {"nested JSON", "{\"a\":" + Repeat("[", kBytes), 10},
  };
  for (const auto& c : cases) {
    const long peak = PeakMemoryOfReading(c.text);
    // The sanitizer's allocator adds memory to each block.
    EXPECT_LE(peak, c.mebibytes * (svcmap::testing::kSanitized ? 4 : 1)) << c.name;
  }
}

TEST(ManifestsTest, ListsInBracketsAreLimitedByDepthOnly) {
  const std::string head = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n";
  const auto nested = [&](int depth) {
    return absl::StrCat(head, "x:\n- ", std::string(static_cast<size_t>(depth), '['),
                        std::string(static_cast<size_t>(depth), ']'), "\n");
  };
  EXPECT_THAT(Texts(Read(nested(62)).errors), IsEmpty());
  EXPECT_THAT(Texts(Read(nested(65)).errors),
              ElementsAre("x.yaml: document 1, line 5: maps and lists must not be nested deeper "
                          "than 64 levels"));
  EXPECT_THAT(Texts(Read(absl::StrCat(head, "x: [", Repeat("1,", 400'000), "]\n")).errors),
              IsEmpty());
}

TEST(ManifestsTest, BracketsInScalarsAndCommentsAreNotNested) {
  const std::string open(1000, '[');
  const std::string text = absl::StrCat(
      "# ", open, "\napiVersion: v1\nkind: Service # ", open, "\nmetadata:\n  name: web\n",
      "  annotations:\n    literal: |\n      ", open, "\n\n       more\n    folded: >2-\n       ",
      open, "\n      ", open, "\n    plain: a ", open, "\n      ", open, "\n    double: \"\\\" ",
      open, "\n      ", open, "\"\n    single: 'it''s ", open, "'\n    apostrophe: it's ", open,
      "\n    ? key\n    : ", "a:", open, "\n    flow: a\nspec:\n  externalIPs: ['", open,
      "', \"[\\\"", open, "\", # ", open, "\n    a#b]\n  ports:\n  - name: |\n     ", open,
      "\n    port: 80\n");
  const Manifests manifests = Read(text);
  EXPECT_THAT(Texts(manifests.errors), IsEmpty()) << text;
  ASSERT_THAT(manifests.objects, SizeIs(1));
  const v1::Service& service = manifests.objects[0].object.service();
  const auto& annotations = service.metadata().annotations();
  EXPECT_EQ(annotations.at("plain"), absl::StrCat("a ", open, " ", open));
  EXPECT_EQ(annotations.at("double"), absl::StrCat("\" ", open, " ", open));
  EXPECT_EQ(annotations.at("single"), absl::StrCat("it's ", open));
  EXPECT_EQ(annotations.at("apostrophe"), absl::StrCat("it's ", open));
  EXPECT_EQ(annotations.at("key"), absl::StrCat("a:", open));
  EXPECT_EQ(service.spec().external_ips(0), open);
  EXPECT_EQ(service.spec().external_ips(1), absl::StrCat("[\"", open));
  EXPECT_EQ(service.spec().ports(0).name(), absl::StrCat(open, "\n"));
}

TEST(ManifestsTest, LargeJsonDocumentsInAYamlStreamAreRead) {
  std::string items;
  for (int i = 0; i < 10'000; ++i) {
    absl::StrAppend(&items, i == 0 ? "" : ",", R"({"metadata":{"name":"n)", i,
                    R"("},"spec":{"podCIDRs":[]}})");
  }
  const std::string list =
      absl::StrCat(R"({"apiVersion":"v1","kind":"NodeList","items":[)", items, "]}\n");
  const Manifests manifests = Read(absl::StrCat("---\n", list, "---\n", list));
  EXPECT_THAT(Texts(manifests.errors), IsEmpty());
  ASSERT_THAT(manifests.objects, SizeIs(20'000));
  EXPECT_EQ(manifests.objects.back().document, 2);
  EXPECT_EQ(manifests.objects.back().line, 4);
}

TEST(ManifestsTest, ConcatenatedJsonIsSeveralDocuments) {
  const Manifests manifests = Read(
      "\xef\xbb\xbf"
      R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}
{"apiVersion":"v1","kind":"Node","metadata":{"name":"\u0062\ud83d\ude00\/"}} )");
  EXPECT_THAT(Texts(manifests.errors), IsEmpty());
  EXPECT_THAT(Names(manifests), ElementsAre("a", "b\xf0\x9f\x98\x80/"));
  EXPECT_EQ(manifests.objects[1].document, 2);
  EXPECT_EQ(manifests.objects[1].line, 2);
}

TEST(ManifestsTest, BadJsonIsRejectedWithItsLine) {
  const char* const kBad[] = {"{\"a\": 01}",      "{\"a\": +1}",          "{\"a\": .5}",
                              "{\"a\": 1.}",      "{\"a\": -}",           "{\"a\": \"\\ud800\"}",
                              "{\"a\": \"\\x\"}", "{\"a\": tru}",         "{\"a\" 1}",
                              "{\"a\": 1,}",      "{\"a\": [1,]}",        "{\"a\": \"x",
                              "{\"a\": \"\n\"}",  "{\"a\": 1, \"a\": 2}", "{,}"};
  for (const char* bad : kBad) EXPECT_THAT(Read(bad).errors, SizeIs(1)) << bad;
}

// kubectl reads 0120 as 80.
TEST(ManifestsTest, NumbersThatStartWithZeroAreRejected) {
  for (const char* bad : {"0120", "00", "-01", "+07", "089"}) {
    EXPECT_THAT(Texts(Read(absl::StrCat("a: ", bad, "\n")).errors),
                ElementsAre(HasSubstr("start with 0")))
        << bad;
  }
  for (const char* good : {"0", "-0", "0.5", "0x50", "0o120", "\"0120\""}) {
    const std::vector<std::string> errors = Texts(Read(absl::StrCat("a: ", good, "\n")).errors);
    EXPECT_THAT(errors, ::testing::Each(::testing::Not(HasSubstr("start with 0")))) << good;
  }
}

// svcmap does not read other kinds, so it checks only their syntax.
TEST(ManifestsTest, OtherKindsMayContainValuesThatSvcmapDoesNotAccept) {
  const char* const kSpecs[] = {"{mode: 0755}", "{a: 1, a: 2}",       "{<<: &b {c: d}, e: *b}",
                                "{a: !!int 1}", "{a: !Ref b, 07: c}", "[{b: [00]}]",
                                "{? !x y : z}"};
  for (const char* spec : kSpecs) {
    for (const char* form :
         {"kind: Deployment\napiVersion: apps/v1\nmetadata: {name: d}\nspec: $0\n---\n$1",
          "kind: Kustomization\nmetadata: {name: d}\nspec: $0\n---\n$1",
          "kind: AllowList\napiVersion: a.example/v1\nitems: [$0, x]\n---\n$1",
          "kind: List\napiVersion: v1\nitems:\n- {kind: D, apiVersion: v1, spec: $0}\n- $1"}) {
      const std::string text =
          absl::Substitute(form, spec, "{kind: Service, apiVersion: v1, metadata: {name: a}}");
      const Manifests manifests = Read(text);
      EXPECT_TRUE(std::all_of(manifests.errors.begin(), manifests.errors.end(),
                              [](const ManifestError& error) { return error.misspelled; }))
          << text;
      EXPECT_EQ(manifests.warnings.size() + manifests.errors.size(), 1u) << text;
      EXPECT_THAT(Names(manifests), ElementsAre("a")) << text;
    }
    const Manifests service =
        Read(absl::StrCat("kind: Service\napiVersion: v1\nmetadata: {name: a, x: ", spec, "}\n"));
    ASSERT_THAT(service.errors, SizeIs(1)) << spec;
    EXPECT_EQ(service.errors[0].object, "Service a") << spec;
    EXPECT_THAT(service.objects, IsEmpty()) << spec;
  }
}

TEST(ManifestsTest, KindsThatKubernetesDoesNotHaveAreCounted) {
  struct Case {
    const char* api_version;
    const char* kind;
    size_t unknown;
  };
  for (const Case& c : {Case{"v1", "Serwice", 1},
                        {"v1", "Endpoints", 1},
                        {"discovery.k8s.io/v1", "EPSlice", 1},
                        {"discovery.k8s.io/v1beta1", "EPSlice", 1},
                        {"networking.k8s.io/v1", "Service", 1},
                        {"v1", "Services", 1},
                        {"core/v1", "Service", 1},
                        {"core/v1", "Node", 1},
                        {"v1", "EndpointSlice", 1},
                        {"discovery/v1", "EndpointSlice", 1},
                        {"discovery.k8.io/v1", "EndpointSlice", 1},
                        {"networking.k8.io/v1", "ServiceCIDR", 1},
                        {"v1", "ConfigMap", 0},
                        {"v1", "PodList", 0},
                        {"networking.k8s.io/v1", "Ingress", 0},
                        {"apps/v1", "Deployment", 0},
                        {"serving.knative.dev/v1", "Service", 0}}) {
    const Manifests manifests =
        Read(absl::StrCat("apiVersion: ", c.api_version, "\nkind: ", c.kind, "\n"));
    const std::vector<ManifestError>& ignored =
        c.unknown == 0 ? manifests.warnings : manifests.errors;
    EXPECT_EQ(manifests.errors.size(), c.unknown) << c.kind;
    ASSERT_THAT(ignored, SizeIs(1)) << c.kind;
    EXPECT_THAT(ignored[0].ToString(), HasSubstr("ignored because svcmap"));
  }
}

TEST(ManifestsTest, AFlawInAListRejectsOnlyItsItem) {
  const Manifests manifests = Read(R"(
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 080}]}}
- {apiVersion: v1, kind: Service, metadata: {name: b}}
)");
  EXPECT_THAT(Names(manifests), ElementsAre("b"));
  EXPECT_THAT(Texts(manifests.errors),
              ElementsAre(HasSubstr("line 5: Service a: Invalid value: \"080\": kubectl reads")));
}

// Returns the warnings about unknown fields, without file, document and line.
std::vector<std::string> UnknownFields(std::string_view text) {
  std::vector<std::string> fields;
  const Manifests manifests = Read(text);
  EXPECT_THAT(Texts(manifests.errors), IsEmpty()) << text;
  for (const ManifestObject& object : manifests.objects) {
    for (const ManifestError& unknown : object.unknown_fields) {
      EXPECT_GT(unknown.line, 0);
      EXPECT_THAT(unknown.reason, HasSubstr("unknown field"));
      const size_t similar = unknown.reason.find("did you mean");
      fields.push_back(unknown.object + ": " + unknown.field +
                       (similar == std::string::npos ? "" : " " + unknown.reason.substr(similar)));
    }
  }
  return fields;
}

TEST(ManifestsTest, MisspelledAndMisplacedFieldsAreReported) {
  EXPECT_THAT(
      UnknownFields(R"(
apiVersion: v1
kind: Service
metadata: {name: web, label: {a: b}, annotations: {anything: x}}
spec:
  externalTraficPolicy: Local
  loadBalancerSourceRange: [10.0.0.0/8]
  SessionAffinity: ClientIP
  internaltrafficpolicy: Local
  sessionAffinityConfig: {clientIP: {timeoutSecond: 5}}
  prots: []
  ports: [{port: 80, Port: 81, nodePort: 30080}, {port: 81, selector: {a: b}}]
externalTrafficPolicy: Local
status: {loadBalancer: {ingress: [{IP: 192.0.2.1, ports: []}], conditions: []}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1}
addresstype: IPv4
addressType: IPv4
endpoints: [{addresses: [10.1.0.1], nodename: n1, condition: {ready: false}, conditions: {Ready: true}}]
)"),
      ElementsAre("Service web: metadata.label did you mean \"labels\"?",
                  "Service web: spec.externalTraficPolicy did you mean "
                  "\"externalTrafficPolicy\"?",
                  "Service web: spec.loadBalancerSourceRange did you mean "
                  "\"loadBalancerSourceRanges\"?",
                  "Service web: spec.SessionAffinity did you mean \"sessionAffinity\"?",
                  "Service web: spec.internaltrafficpolicy did you mean "
                  "\"internalTrafficPolicy\"?",
                  "Service web: spec.sessionAffinityConfig.clientIP.timeoutSecond did you "
                  "mean \"timeoutSeconds\"?",
                  "Service web: spec.prots did you mean \"ports\"?",
                  "Service web: spec.ports[0].Port did you mean \"port\"?",
                  "Service web: spec.ports[1].selector", "Service web: externalTrafficPolicy",
                  "Service web: status.loadBalancer.ingress[0].IP did you mean \"ip\"?",
                  "Service web: status.loadBalancer.conditions",
                  "EndpointSlice web-1: addresstype did you mean \"addressType\"?",
                  "EndpointSlice web-1: endpoints[0].nodename did you mean \"nodeName\"?",
                  "EndpointSlice web-1: endpoints[0].condition did you mean "
                  "\"conditions\"?",
                  "EndpointSlice web-1: endpoints[0].conditions.Ready did you mean "
                  "\"ready\"?"));
}

TEST(ManifestsTest, FieldsThatSvcmapDoesNotReadAreKnown) {
  EXPECT_THAT(UnknownFields(R"(
apiVersion: v1
kind: Service
metadata: {name: web, uid: x, resourceVersion: "1", generation: 1, managedFields: [{anything: 1}],
           ownerReferences: [], finalizers: [], selfLink: "", generateName: w}
spec:
  selector: {a: b}
  loadBalancerIP: 192.0.2.1
  loadBalancerClass: a.example/b
  allocateLoadBalancerNodePorts: false
  publishNotReadyAddresses: true
  externalName: a
  ipFamilyPolicy: SingleStack
  trafficDistribution: PreferSameZone
  ports: [{port: 80, targetPort: http, appProtocol: kubernetes.io/h2c}]
status: {conditions: [], loadBalancer: {ingress: [{ip: 192.0.2.1, ports: [{port: 80}]}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1}
addressType: IPv4
ports: [{port: 80, appProtocol: http}]
endpoints: [{addresses: [10.1.0.1], hostname: a, targetRef: {kind: Pod}, deprecatedTopology: {}}]
---
apiVersion: v1
kind: Node
metadata: {name: n1}
spec: {podCIDR: 10.1.0.0/24, providerID: a, unschedulable: true,
       taints: [{key: a, value: b, effect: NoSchedule, timeAdded: x}]}
status: {capacity: {}, allocatable: {}, phase: a, conditions: [], daemonEndpoints: {}, nodeInfo: {},
         images: [], volumesInUse: [], volumesAttached: [], config: {}, runtimeHandlers: [],
         features: {}}
---
apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: c}
spec: {cidrs: [10.96.0.0/16]}
status: {conditions: []}
)"),
              IsEmpty());
}

TEST(ManifestsTest, UnknownFieldsOfAnObjectAreBounded) {
  std::string text = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n";
  for (int i = 0; i < 100; ++i) absl::StrAppend(&text, std::string(500, 'x'), i, ": 1\n");
  const Manifests manifests = Read(text);
  ASSERT_THAT(manifests.objects, SizeIs(1));
  EXPECT_THAT(manifests.objects[0].unknown_fields, SizeIs(16));
  EXPECT_LT(manifests.objects[0].unknown_fields[0].ToString().size(), 300);
}

TEST(ManifestsTest, ErrorsAboutLongTokensAreShort) {
  const std::string digits(100000, '1');
  for (const std::string& bad : {"{\"a\": " + digits + "}", "{\"a\": 1e" + digits + "}",
                                 "{\"a\": " + digits + "x}", "{\"a\": \"" + digits + "\n\"}"}) {
    const Manifests manifests = Read(bad);
    ASSERT_THAT(manifests.errors, SizeIs(1)) << bad.substr(0, 20);
    EXPECT_LT(Texts(manifests.errors)[0].size(), 300) << bad.substr(0, 20);
  }
}

TEST(ManifestsTest, NothingIsNoError) {
  for (const char* text :
       {"", "\n", "---\n", "# only a comment\n", "---\n---\n", "null\n", "%YAML 1.2\n---\n"}) {
    const Manifests manifests = Read(text);
    EXPECT_THAT(manifests.objects, IsEmpty()) << text;
    EXPECT_THAT(Texts(manifests.errors), IsEmpty()) << text;
  }
}

TEST(ManifestsTest, ErrorsAreBoundedAndCounted) {
  std::string text = "apiVersion: v1\nkind: List\nitems:\n";
  for (int i = 0; i < 1000; ++i) text += "- 1\n";
  const Manifests manifests = Read(text);
  ASSERT_THAT(manifests.errors, SizeIs(kMaxManifestErrors + 1));
  EXPECT_EQ(manifests.errors.back().ToString(), "x.yaml: 900 more errors omitted");
}

void ExpectReadBackEqual(const std::vector<v1::Object>& objects) {
  for (const std::string& text : {ManifestJson(objects), ManifestYaml(objects)}) {
    const Manifests again = Read(text);
    EXPECT_THAT(Texts(again.errors), IsEmpty()) << text;
    // Do not use SizeIs, because g++ 12 emits warnings for the code that prints protobuf messages.
    ASSERT_EQ(again.objects.size(), objects.size()) << text;
    for (size_t i = 0; i < objects.size(); ++i) {
      EXPECT_TRUE(
          google::protobuf::util::MessageDifferencer::Equals(again.objects[i].object, objects[i]))
          << text;
    }
  }
}

// Sets every field of a message. Adds two entries to each repeated field.
void FillAll(google::protobuf::Message& message) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    const std::string text = absl::StrCat("a ", field->name());
    if (field->is_repeated()) {
      for (int n = 0; n < (field->is_map() ? 1 : 2); ++n) {
        if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
          FillAll(*reflection.AddMessage(&message, field));
        } else {
          reflection.AddString(&message, field, absl::StrCat(text, n));
        }
      }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      FillAll(*reflection.MutableMessage(&message, field));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      reflection.SetString(&message, field, text);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
      reflection.SetBool(&message, field, true);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      reflection.SetInt64(&message, field, 1'700'000'000);  // Seconds of a Timestamp.
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
      reflection.SetUInt32(&message, field, 7);
    } else {
      reflection.SetInt32(&message, field, 7);
    }
  }
}

TEST(ManifestsTest, EveryFieldOfEveryKindIsWrittenAndReadBack) {
  std::vector<v1::Object> objects(4);
  FillAll(*objects[0].mutable_service());
  FillAll(*objects[1].mutable_endpoint_slice());
  FillAll(*objects[2].mutable_node());
  FillAll(*objects[3].mutable_service_cidr());
  ExpectReadBackEqual(objects);
}

TEST(ManifestsTest, WritesAsKubectlDoes) {
  const Manifests manifests = Read(
      "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\n"
      "spec: {clusterIP: 10.96.0.10, ports: [{port: 80, name: http}]}\n");
  const std::vector<v1::Object> objects = {manifests.objects.at(0).object};
  EXPECT_EQ(ManifestJson(objects), R"({
  "apiVersion": "v1",
  "kind": "Service",
  "metadata": {
    "name": "web",
    "namespace": "shop"
  },
  "spec": {
    "clusterIP": "10.96.0.10",
    "ports": [
      {
        "name": "http",
        "port": 80
      }
    ]
  }
}
)");
}

class ManifestPathTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  const svcmap::testing::TemporaryFolder folder_ = *svcmap::testing::TemporaryFolder::Make();
  const std::string directory_ = folder_.path();
};

std::string NodeYaml(const std::string& name) {
  return absl::StrCat("apiVersion: v1\nkind: Node\nmetadata: {name: ", name, "}\n");
}

TEST_F(ManifestPathTest, ReadsManifestsOfADirectorySortedByName) {
  Write("b.yml", NodeYaml("b"));
  Write("a.yaml", NodeYaml("a"));
  Write("c.json", R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"c"}})");
  Write("bad.yaml", "[");
  Write("notes.txt", "[");
  std::filesystem::create_directory(directory_ + "/d.yaml");
  const absl::StatusOr<Manifests> manifests = ReadManifestPath(directory_);
  ASSERT_TRUE(manifests.ok());
  EXPECT_THAT(Names(*manifests), ElementsAre("a", "b", "c"));
  EXPECT_EQ(manifests->objects[0].source, directory_ + "/a.yaml");
  EXPECT_THAT(manifests->errors, SizeIs(1));
}

TEST_F(ManifestPathTest, AMissingPathIsNamed) {
  EXPECT_EQ(ReadManifestPath(directory_ + "/none").status().message(),
            directory_ + "/none: No such file or directory");
}

TEST_F(ManifestPathTest, AnUnreadableFileLeavesTheOthers) {
  Write("a.yaml", NodeYaml("a"));
  std::filesystem::create_symlink("/nonexistent", directory_ + "/b.yaml");
  std::filesystem::create_symlink(directory_ + "/a.yaml", directory_ + "/c.yaml");
  const absl::StatusOr<Manifests> manifests = ReadManifestPath(directory_);
  ASSERT_TRUE(manifests.ok());
  // The reader follows symbolic links, because ConfigMap volumes contain symbolic links.
  EXPECT_THAT(Names(*manifests), ElementsAre("a", "a"));
}

}  // namespace
}  // namespace svcmap::api
