// Reads files and directories of manifests.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "api/manifests/manifests.h"

namespace svcmap::api {
namespace {

namespace fs = std::filesystem;

absl::Status PathError(const std::string& path, std::string_view problem) {
  return absl::NotFoundError(absl::StrCat(path, ": ", std::string(problem)));
}

bool IsManifestName(const fs::path& path) {
  return path.extension() == ".yaml" || path.extension() == ".yml" || path.extension() == ".json";
}

absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    // Subdirectories are ignored, as in kubectl. Dangling links and special files cause an error
    // when they are read.
    std::error_code ignored;
    if (IsManifestName(entry->path()) && !entry->is_directory(ignored)) {
      files.push_back(entry->path().string());
    }
  }
  if (error) return PathError(path, error.message());
  std::sort(files.begin(), files.end());
  return files;
}

template <typename T>
void MoveAppend(std::vector<T>& from, std::vector<T>& to) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

}  // namespace

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);  // Fails unless `path` is a regular file.
  if (error) return PathError(path, error.message());
  if (size > kMaxManifestBytes) {
    return PathError(path,
                     absl::StrCat("Too long: must have at most ", kMaxManifestBytes, " bytes"));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(size, '\0');
  file.read(text.data(), static_cast<std::streamsize>(size));
  if (!file && !file.eof()) return PathError(path, "read failed");
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

absl::StatusOr<Manifests> ReadManifestPath(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    const absl::StatusOr<std::string> text = ReadTextFile(path);
    if (!text.ok()) return text.status();
    return ReadManifests(*text, path);
  }
  const absl::StatusOr<std::vector<std::string>> files = ListDirectory(path);
  if (!files.ok()) return files.status();
  Manifests all;
  for (const std::string& file : *files) {
    const absl::StatusOr<std::string> text = ReadTextFile(file);
    if (!text.ok()) {
      const std::string message(text.status().message());
      all.errors.push_back({.source = file, .reason = message.substr(file.size() + 2)});
      continue;
    }
    Manifests some = ReadManifests(*text, file);
    MoveAppend(some.objects, all.objects);
    MoveAppend(some.errors, all.errors);
    MoveAppend(some.warnings, all.warnings);
  }
  return all;
}

}  // namespace svcmap::api
