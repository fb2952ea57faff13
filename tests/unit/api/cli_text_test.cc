#include "api/cli/text.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "api/cli/commands.h"
#include "api/cli/fd_output.h"
#include "api/cli/message_text.h"
#include "api/cli/table.h"
#include "api/manifests/json_text.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "svcmap/v1/control.pb.h"
#include "tests/unit/api/cli_fake_agent.h"

namespace svcmap::api {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using ::testing::HasSubstr;

TEST(TextTest, TextFromOutsideStaysOneLineAndCannotMoveTheCursor) {
  EXPECT_EQ(OneLine("a\nb\x1b[2J\x7f"), "a\\nb\\x1b[2J\\x7f");
  EXPECT_EQ(OneLine("\xc2\x9b"), "\\xc2\\x9b");
  EXPECT_EQ(OneLine("\xff"), "\\xff");
  EXPECT_EQ(OneLine("K\xc3\xbckel \xe2\x82\xac"), "K\xc3\xbckel \xe2\x82\xac");
}

TEST(TextTest, DurationsNeedAUnitAndABound) {
  EXPECT_EQ(ParseDuration("10s")->count(), 10'000);
  EXPECT_EQ(ParseDuration("1m30s")->count(), 90'000);
  EXPECT_EQ(ParseDuration("1.5s")->count(), 1'500);
  for (const char* bad : {"", "10", "s", "0", "0s", "-1s", "1us", "inf", "9000h", "1s x"}) {
    EXPECT_FALSE(ParseDuration(bad).ok()) << bad;
  }
}

TEST(TextTest, NumbersForPeople) {
  google::protobuf::Duration duration;
  duration.set_nanos(412'345);
  EXPECT_EQ(DurationText(duration), "0.41 ms");
  duration.set_seconds(12);
  EXPECT_EQ(DurationText(duration), "12.0 s");
  EXPECT_EQ(DurationText(std::chrono::milliseconds(90'000)), "1m30s");
  google::protobuf::Timestamp time;
  time.set_seconds(1'700'000'000);
  time.set_nanos(5);
  EXPECT_EQ(TimeText(time), "2023-11-14T22:13:20Z");
  time.set_seconds(1LL << 60);
  EXPECT_EQ(TimeText(time), "(invalid time)");
  EXPECT_EQ(BytesText(640), "640 bytes");
  EXPECT_EQ(BytesText(16'777'216), "16.8 MB");
  EXPECT_EQ(CountText(1, "object"), "1 object");
  EXPECT_EQ(CountText(0, "object"), "0 objects");
}

TEST(TableTest, TheWidestCellsAreShortenedToFit) {
  std::ostringstream out;
  Table table({"NAME", "ADDRESS", "PORT(S)"}, out, 30);
  table.Row({"web", "2001:db8:1234:5678::1", "80/TCP,443/TCP"});
  table.Row({"a", "10.0.0.1", "53/UDP"});
  table.Finish();
  table.Row({"a-new-name", "10.0.0.1", ""});  // Widths of printed columns do not change.
  EXPECT_EQ(out.str(),
            "NAME  ADDRESS      PORT(S)\n"
            "web   2001:db8...  80/TCP,4...\n"
            "a     10.0.0.1     53/UDP\n"
            "a...  10.0.0.1     <none>\n");
}

TEST(TableTest, NamesAreShortenedLessAndInTheMiddle) {
  std::ostringstream out;
  Table table({"NAME", "TYPE", "PORT(S)"}, out, 44);
  table.Row({"a-very-long-name-of-a-service-v4", "ClusterIP", "80:30080/TCP"});
  table.Row({"a-very-long-name-of-a-service-v6", "ClusterIP", "80:30080/TCP"});
  table.Finish();
  EXPECT_EQ(out.str(),
            "NAME                   TYPE       PORT(S)\n"
            "a-very-lo...ervice-v4  ClusterIP  80:3008...\n"
            "a-very-lo...ervice-v6  ClusterIP  80:3008...\n");
}

TEST(TextTest, ShortenedTextKeepsWholeCharacters) {
  EXPECT_EQ(Shorten("K\xc3\xbckelchen", 9), "K\xc3\xbckelchen");
  EXPECT_EQ(Shorten("K\xc3\xbckelchen", 5), "K\xc3\xbc...");
  EXPECT_EQ(Shorten("K\xc3\xbckelchen", 2), "..");
}

TEST(TextTest, ShortenedNamesKeepBothEnds) {
  EXPECT_EQ(ShortenMiddle("web-v6", 6), "web-v6");
  EXPECT_EQ(ShortenMiddle("payments-v6", 10), "paym...-v6");
  EXPECT_EQ(ShortenMiddle("payments-v6", 6), "pay...");
  EXPECT_EQ(ShortenMiddle("K\xc3\xbckelchen", 8), "K\xc3\xbckel...");
}

TEST(TextTest, LinesAreBrokenAtSpacesAndAligned) {
  EXPECT_EQ(FitLines("a b\n", 0), "a b\n");
  EXPECT_EQ(FitLines("Objects       3 services, 1 endpointslice, 1 node\n", 40),
            "Objects       3 services, 1\n"
            "              endpointslice, 1 node\n");
  EXPECT_EQ(FitLines("  Service shop/web rejected: spec.ports[0].port: Invalid\n\nend\n", 30),
            "  Service shop/web rejected:\n"
            "    spec.ports[0].port:\n"
            "    Invalid\n"
            "\n"
            "end\n");
  // A word that is longer than a line is not broken.
  EXPECT_EQ(FitLines("Label  " + std::string(40, 'x') + " y z\n", 20),
            "Label  " + std::string(40, 'x') + "\n       y z\n");
}

TEST(TableTest, ManyRowsArePrintedBeforeTheEnd) {
  std::ostringstream out;
  Table table({"A", "B"}, out);
  for (size_t i = 0; i < Table::kRowsHeldBack; ++i) table.Row({"x", "y"});
  EXPECT_TRUE(out.str().starts_with("A  B\nx  y\n"));
  out.str("");
  table.Row({"wide", "y"});
  table.Row({"x", "y"});
  EXPECT_EQ(out.str(), "wide  y\nx     y\n");
}

TEST(MessageTextTest, JsonHasEveryFieldAndNumbersAsNumbers) {
  v1::GetStatusResponse status;
  status.set_node_name("n\"1");
  status.set_state(v1::SERVING);
  status.set_revision(1ull << 40);
  status.add_objects()->set_kind(v1::KIND_SERVICE);
  status.mutable_last_commit()->mutable_duration()->set_nanos(412'000);
  const std::string json = JsonText(MessageTree(status));
  EXPECT_THAT(json, HasSubstr("\"nodeName\": \"n\\\"1\",\n  \"state\": \"SERVING\",\n"));
  EXPECT_THAT(json, HasSubstr("\"revision\": 1099511627776,\n"));
  EXPECT_THAT(json, HasSubstr("\"objects\": [\n    {\n      \"kind\": \"KIND_SERVICE\",\n"
                              "      \"count\": 0\n    }\n  ],\n"));
  EXPECT_THAT(json, HasSubstr("\"duration\": \"0.000412s\""));
  EXPECT_THAT(json, HasSubstr("\"findings\": []"));
  EXPECT_THAT(json, Not(HasSubstr("controller")));  // The field `controller` is not set.
  EXPECT_EQ(JsonText(MessageTree(v1::GetStatusRequest())), "{}\n");
}

TEST(StatusTextTest, StatesWeDoNotKnowAreNumbers) {
  EXPECT_EQ(StateName(v1::RETRYING), "retrying");
  EXPECT_EQ(StateName(static_cast<v1::State>(9)), "state 9");
}

TEST(FdOutputTest, RemembersWhyWritingFailed) {
  std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  FdOutput output(ends[1]);
  std::ostream out(&output);
  out << "text" << std::flush;
  char text[5] = {};
  EXPECT_EQ(read(ends[0], text, 4), 4);
  EXPECT_STREQ(text, "text");
  close(ends[0]);
  out << std::string(1'000'000, 'x');
  EXPECT_FALSE(out.good());
  EXPECT_EQ(output.error(), EPIPE);
  close(ends[1]);

  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  FdOutput full_output(full);
  std::ostream(&full_output) << "x" << std::flush;
  EXPECT_EQ(full_output.error(), ENOSPC);
  close(full);
}

// Tests that svcmapctl escapes control characters in all strings that an agent sends. Terminals
// interpret control characters as commands.

// Clears the screen, sets the title of the window, returns to the start of the line, contains
// U+009B, which starts an escape sequence, and U+202E, which reverses the text after it.
constexpr char kEvil[] =
    "evil\x1b[2J\x1b]0;x\x07\rend\xc2\x9b"
    "2J\x7f\u202e";

// Sets all fields. Of a oneof, sets only a field that is already set.
void Fill(Message& message, int depth = 0) {
  const auto& reflection = *message.GetReflection();
  const auto& descriptor = *message.GetDescriptor();
  if (depth > 6 || descriptor.file()->package() == "google.protobuf") return;
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor* field = descriptor.field(i);
    const bool choice = field->real_containing_oneof() != nullptr;
    if (choice && !reflection.HasField(message, field)) continue;
    if (field->is_map()) {
      Message* entry = reflection.AddMessage(&message, field);
      entry->GetReflection()->SetString(entry, entry->GetDescriptor()->field(0), kEvil);
      if (entry->GetDescriptor()->field(1)->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        entry->GetReflection()->SetString(entry, entry->GetDescriptor()->field(1), kEvil);
      }
      continue;
    }
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        field->is_repeated() ? reflection.AddString(&message, field, kEvil)
                             : reflection.SetString(&message, field, kEvil);
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        Fill(field->is_repeated() ? *reflection.AddMessage(&message, field)
                                  : *reflection.MutableMessage(&message, field),
             depth + 1);
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        if (!field->is_repeated()) reflection.SetUInt64(&message, field, 1);
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        if (!field->is_repeated()) reflection.SetUInt32(&message, field, 1);
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        if (!field->is_repeated()) reflection.SetBool(&message, field, true);
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        if (!field->is_repeated()) {
          reflection.SetEnumValue(&message, field, field->enum_type()->value(1)->number());
        }
        break;
      default:
        break;
    }
  }
}

// Returns one message for each field of the first oneof of `T`.
template <typename T>
std::vector<T> OneOfEach() {
  std::vector<T> messages;
  const auto& oneof = *T::descriptor()->oneof_decl(0);
  for (int i = 0; i < oneof.field_count(); ++i) {
    T message;
    Fill(*message.GetReflection()->MutableMessage(&message, oneof.field(i)));
    Fill(message);
    messages.push_back(message);
  }
  return messages;
}

FakeAnswers EvilAnswers() {
  FakeAnswers answers;
  Fill(answers.status);
  answers.status.set_state(v1::RETRYING);
  v1::ListResponse list;
  for (const v1::Object& object : OneOfEach<v1::Object>()) *list.add_objects() = object;
  v1::ObjectMeta& stored = *list.add_objects()->mutable_service()->mutable_metadata();
  stored.set_namespace_("shop");  // For `delete`.
  stored.set_name("web");
  answers.list = {list};
  answers.dump = {kEvil, "\tmap {\n"};
  Fill(answers.explain);
  Fill(answers.ack);
  answers.watch = OneOfEach<v1::WatchEvent>();
  return answers;
}

bool HasControlCharacter(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f) return true;
    if (byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0) {
      return true;
    }
  }
  return text.find("\u202e") != std::string_view::npos;
}

constexpr char kManifest[] =
    "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\n";

TEST(CliControlCharactersTest, AreEscapedInTheOutputOfEachCommand) {
  const FakeAgent agent(EvilAnswers());
  const std::vector<std::vector<std::string>> cases = {
      {"status"},
      {"status", "-o", "json"},
      {"status", "-o", "yaml"},
      {"get", "services"},
      {"get", "services", "-o", "wide"},
      {"get", "services", "-o", "json"},
      {"get", "services", "-o", "yaml"},
      {"get", "services", "-o", "name"},
      {"get", "endpointslices"},
      {"get", "endpointslices", "-o", "json"},
      {"get", "nodes"},
      {"get", "nodes", "-o", "yaml"},
      {"get", "servicecidrs"},
      {"dump", "applied"},
      {"explain", "10.96.0.10:80"},
      {"explain", "10.96.0.10:80", "-o", "json"},
      {"explain", "10.96.0.10:80", "-o", "yaml"},
      {"watch"},
      {"watch", "-o", "json"},
      {"wait", "--for", "serving", "--timeout", "200ms"},
      {"apply", "-f", "-"},
      {"apply", "--dry-run", "-f", "-"},
      {"delete", "service", "shop/web"},
  };
  for (const auto& args : cases) {
    std::string name;
    for (const std::string& arg : args) name += arg + " ";
    const CtlResult result = Ctl(agent, args, kManifest);
    EXPECT_NE(result.code, 2) << name << ": " << result.err;
    EXPECT_FALSE(HasControlCharacter(result.out)) << name << ::testing::PrintToString(result.out);
    EXPECT_FALSE(HasControlCharacter(result.err)) << name << ::testing::PrintToString(result.err);
    EXPECT_THAT(result.out + result.err, HasSubstr("evil")) << name;
  }
}

TEST(CliControlCharactersTest, AreEscapedInErrorsOfTheAgent) {
  const FakeAgent agent({.error = absl::InternalError(kEvil)});
  for (const char* command : {"status", "watch"}) {
    const CtlResult result = Ctl(agent, {command});
    EXPECT_FALSE(HasControlCharacter(result.out + result.err)) << command;
    EXPECT_THAT(result.err, HasSubstr("evil\\x1b[2J")) << command;
  }
}

TEST(CliControlCharactersTest, ADumpKeepsLineBreaksAndTabs) {
  const FakeAgent agent({.dump = {kEvil, "\tmap {\n"}});
  EXPECT_EQ(Ctl(agent, {"dump", "applied"}).out,
            "evil\\x1b[2J\\x1b]0;x\\x07\\x0dend\\xc2\\x9b2J\\x7f\\xe2\\x80\\xae\tmap {\n");
}

// Tests of the text and JSON output of `svcmapctl migrate check`.

const std::vector<MigrationFinding> kTwo = {{true, "a chain\nof \"mine\"", "it drops", "accept"},
                                            {false, "kube-proxy runs", "both serve", "wait"}};

TEST(CliMigrateTest, ThePage) {
  EXPECT_EQ(FindingsText({}), "No problems found.\n");
  EXPECT_EQ(FindingsText({kTwo[1]}),
            "NOTE       kube-proxy runs\n"
            "  effect   both serve\n"
            "  remedy   wait\n\n"
            "No problems found, 1 note.\n");
  EXPECT_EQ(FindingsText(kTwo),
            "ATTENTION  a chain\\nof \"mine\"\n"
            "  effect   it drops\n"
            "  remedy   accept\n\n"
            "NOTE       kube-proxy runs\n"
            "  effect   both serve\n"
            "  remedy   wait\n\n"
            "1 finding needs attention, 1 note.\n");
}

TEST(CliMigrateTest, Json) {
  EXPECT_EQ(FindingsJson({kTwo[0]}), R"({
  "attention": true,
  "findings": [
    {
      "level": "attention",
      "what": "a chain\nof \"mine\"",
      "effect": "it drops",
      "remedy": "accept"
    }
  ]
}
)");
}

}  // namespace
}  // namespace svcmap::api
