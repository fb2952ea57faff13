// Shell completion. A small script for each shell calls `svcmapctl __complete WORDS...`, which
// prints one candidate per line, followed by a tab and a description. The line ":file" means file
// names.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace svcmap::api {

extern const char kBashCompletion[];
extern const char kZshCompletion[];
extern const char kFishCompletion[];

struct Completion {
  struct Candidate {
    std::string word;
    std::string description;
  };
  // Additional candidates that are not part of the command line's definition.
  enum class Source : uint8_t { kNone, kFiles, kNamespaces, kObjects, kAddresses, kNetns };

  std::vector<Candidate> candidates;  // Commands, options and fixed values, not filtered.
  Source source = Source::kNone;
  std::string kind;        // Kinds of the objects, as typed: "svc,eps". Set only for kObjects.
  std::string name_space;  // Value of --namespace.
};

// Returns the candidates for the last of `words`, which does not contain the program name. The last
// word is the word to complete and can be empty. Pure function.
Completion CompleteWords(const std::vector<std::string>& words);

// Prints the candidates that start with the last word. Reads names from the agent, or from the
// bundle of --bundle. Prints no names if the agent does not answer within 1 s.
int RunComplete(const std::vector<std::string>& words, const std::string& address_from_env,
                std::ostream& out);

}  // namespace svcmap::api
