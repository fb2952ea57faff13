#include "api/cli/completion.h"

#include <algorithm>
#include <ostream>
#include <set>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "api/check/target.h"
#include "api/cli/bundle_reader.h"
#include "api/cli/client.h"
#include "api/cli/describe.h"
#include "api/cli/object_id.h"
#include "api/cli/text.h"
#include "api/connect/target.h"
#include "api/process/directory.h"

namespace svcmap::api {
namespace {

using Candidate = Completion::Candidate;

// Returns the first line of a description, without the default.
std::string Summary(const std::string& description) {
  const std::string line = absl::StrReplaceAll(description, {{"\n", " "}});
  return line.substr(0, line.find(" [default"));
}

// Returns the values that a description lists, such as "Output format: text or json".
std::vector<Candidate> ListedValues(const std::string& description) {
  std::string list = Summary(description);
  const size_t colon = list.find(": ");
  if (colon != std::string::npos) list.erase(0, colon + 2);
  std::vector<Candidate> values;
  for (const auto word : absl::StrSplit(absl::StrReplaceAll(list, {{" or ", ", "}}), ", ")) {
    values.push_back({std::string(word.substr(0, word.find("NUMBER"))), ""});
  }
  return values;
}

std::vector<Candidate> Kinds() {
  std::vector<Candidate> kinds;
  for (const KindInfo& kind : kKinds) {
    kinds.push_back({std::string(kind.plural), std::string(kind.short_name)});
  }
  return kinds;
}

void AddValues(const CLI::Option& option, Completion& completion) {
  using Source = Completion::Source;
  const bool positional = option.get_positional() && option.get_lnames().empty();
  const std::string type = positional ? option.get_name() : option.get_type_name();
  if (type == "FILE") completion.source = Source::kFiles;
  if (type == "NAMESPACE") completion.source = Source::kNamespaces;
  if (type == "TO") completion.source = Source::kAddresses;
  if (positional && type == "NAME") completion.source = Source::kObjects;
  if (type == "NAMESPACE/NAME") {
    completion.source = Source::kObjects;
    completion.kind = "services";
  }
  if (option.check_lname("netns")) completion.source = Source::kNetns;
  if (type == "KIND") completion.candidates = Kinds();
  static const std::set<std::string> listed = {"FORMAT", "CONDITION", "ORDER",
                                               "GROUP",  "WHAT",      "SHELL"};
  if (listed.contains(type)) completion.candidates = ListedValues(option.get_description());
}

void AddOptions(const CLI::App& app, std::vector<Candidate>& candidates) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      // An option hides an option of the parent with the same name.
      const auto same = [&name](const Candidate& other) { return other.word == "--" + name; };
      if (std::any_of(candidates.begin(), candidates.end(), same)) continue;
      candidates.push_back({"--" + name, Summary(option->get_description())});
    }
  }
}

void AddCommands(const CLI::App& app, std::vector<Candidate>& candidates) {
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    candidates.push_back({command->get_name(), command->get_description()});
  }
}

bool HasCommands(const CLI::App& app) { return app.get_require_subcommand_min() > 0; }

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// Returns the option with this name ("-o", "--output") of the command or of its parents.
const CLI::Option* FindOption(const CLI::App* command, const std::string& name) {
  for (; command != nullptr; command = command->get_parent()) {
    if (const CLI::Option* option = command->get_option_no_throw(name)) return option;
  }
  return nullptr;
}

// Returns the value of a global option that may be anywhere in the words.
std::string ValueOf(const std::vector<std::string>& words, const std::string& option) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == option && i + 2 < words.size()) return words[i + 1];
    if (words[i].starts_with(option + "=")) return words[i].substr(option.size() + 1);
  }
  return "";
}

std::vector<std::string> NamesOf(Reader& reader, const Completion& completion) {
  using Source = Completion::Source;
  const bool addresses = completion.source == Source::kAddresses;
  const bool objects = completion.source == Source::kObjects;
  std::set<std::string> names;
  std::vector<CheckTarget> targets;
  const auto add = [&](const v1::Object& object) {
    const ObjectId id = IdOf(object);
    if (addresses) {
      AddTargets(object.service(), {}, targets);
    } else if (completion.source == Source::kNamespaces) {
      names.insert(id.name_space);
    } else {
      const bool full = !id.name_space.empty() && completion.name_space.empty();
      names.insert(full ? id.name_space + "/" + id.name : id.name);
    }
  };
  const std::vector<std::string> kinds =
      absl::StrSplit(objects ? completion.kind : "services", ',');
  for (const std::string& word : kinds) {
    const KindInfo* kind = FindKindWord(word);
    if (kind == nullptr) continue;
    const std::string name_space = objects ? completion.name_space : "";
    // If the call fails, the names that have arrived are sufficient.
    if (!reader.ForEach({kind->proto, name_space, ""}, add).ok()) break;
  }
  for (const CheckTarget& target : targets) names.insert(target.ToString());
  return {names.begin(), names.end()};
}

std::vector<std::string> NetnsNames() {
  std::vector<std::string> names;
  for (const auto& path : EntriesOf("/run/netns")) names.push_back(path.filename());
  return names;
}

}  // namespace

Completion CompleteWords(const std::vector<std::string>& words) {
  Options values;
  CLI::App app;
  Describe(app, values);
  Completion completion;
  const CLI::App* command = &app;
  const CLI::Option* pending = nullptr;  // The option whose value is the next word.
  std::vector<std::string> positionals;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (pending != nullptr) {
      if (pending->check_lname("namespace")) completion.name_space = word;
      pending = nullptr;
    } else if (word.starts_with('-')) {
      const size_t equal = word.find('=');
      const CLI::Option* option = FindOption(command, word.substr(0, equal));
      if (option != nullptr && TakesValue(*option) && equal == std::string::npos) pending = option;
    } else if (HasCommands(*command)) {
      const std::vector<const CLI::App*> named =
          command->get_subcommands([&word](const CLI::App* sub) { return sub->check_name(word); });
      if (named.empty()) return completion;
      command = named.front();
    } else {
      positionals.push_back(word);
    }
  }
  const std::string last = words.empty() ? "" : words.back();
  if (pending != nullptr) {
    AddValues(*pending, completion);
  } else if (const size_t equal = last.find('='); last.starts_with("--") && equal != last.npos) {
    const CLI::Option* option = FindOption(command, last.substr(0, equal));
    if (option != nullptr) AddValues(*option, completion);
    for (Candidate& candidate : completion.candidates) {
      candidate.word.insert(0, last.substr(0, equal + 1));
    }
  } else if (last.starts_with('-')) {
    for (; command != nullptr; command = command->get_parent()) {
      AddOptions(*command, completion.candidates);
    }
  } else if (HasCommands(*command)) {
    AddCommands(*command, completion.candidates);
  } else {
    size_t index = positionals.size();
    for (const CLI::Option* option : command->get_options()) {
      if (!option->get_positional()) continue;
      // The last positional argument of `delete` can be repeated.
      if (index-- > 0 && option->get_items_expected_max() <= 1) continue;
      AddValues(*option, completion);
      if (option->get_name() == "COMMAND" && positionals.empty()) {
        AddCommands(app, completion.candidates);
      }
      break;
    }
    if (!positionals.empty()) completion.kind = positionals[0];
  }
  return completion;
}

int RunComplete(const std::vector<std::string>& words, const std::string& address_from_env,
                std::ostream& out) {
  using Source = Completion::Source;
  const Completion completion = CompleteWords(words);
  std::vector<Candidate> candidates = completion.candidates;
  std::vector<std::string> names;
  if (completion.source == Source::kFiles) out << ":file\n";
  if (completion.source == Source::kNetns) names = NetnsNames();
  if (completion.source == Source::kNamespaces || completion.source == Source::kObjects ||
      completion.source == Source::kAddresses) {
    const std::string bundle = ValueOf(words, "--bundle");
    std::string address = ValueOf(words, "--address");
    if (address.empty()) address = address_from_env;
    const auto target = ParseTarget(address.empty() ? std::string(kDefaultAddress) : address);
    const auto tls = ReadTlsFiles({.certificate = ValueOf(words, "--tls-cert"),
                                   .key = ValueOf(words, "--tls-key"),
                                   .ca = ValueOf(words, "--tls-ca"),
                                   .server_name = ValueOf(words, "--tls-server-name")});
    if (!bundle.empty()) {
      const auto reader = BundleReader::Open(bundle);
      if (reader.ok()) names = NamesOf(**reader, completion);
    } else if (target.ok() && tls.ok()) {
      names = NamesOf(*NewClient(*target, *tls, std::chrono::seconds(1)), completion);
    }
  }
  const std::string last = words.empty() ? "" : words.back();
  const size_t equal = last.starts_with("--") ? last.find('=') : std::string::npos;
  const std::string before = equal == std::string::npos ? "" : last.substr(0, equal + 1);
  for (const std::string& name : names) candidates.push_back({before + name, ""});
  for (const Candidate& candidate : candidates) {
    if (!candidate.word.starts_with(last)) continue;
    out << OneLine(candidate.word) << '\t' << OneLine(candidate.description) << '\n';
  }
  return 0;
}

}  // namespace svcmap::api
