// Tests that svcmapctl escapes control characters in all strings that an agent sends. Terminals
// interpret control characters as commands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "tests/unit/api/cli_fake_agent.h"

namespace svcmap::api {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace svcmap::api
