#include "api/bundle/contents.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "absl/strings/str_format.h"
#include "api/manifests/json_text.h"
#include "google/protobuf/util/json_util.h"

namespace svcmap::api {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kMaxBytes = size_t{4} << 30;
constexpr int kGzip = 16 + MAX_WBITS;  // windowBits value that selects the gzip format.

// Header of a file in the ustar format. Numbers are octal text.
struct Header {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char time[12];
  char checksum[8];
  char type;
  char link[100];
  char magic[6];
  char version[2];
  char user[32];
  char group[32];
  char major[8];
  char minor[8];
  char prefix[155];
  char padding[12];
};
static_assert(sizeof(Header) == kBlock);

template <size_t kSize>
void Put(const std::string& text, char (&field)[kSize]) {
  std::memcpy(field, text.data(), std::min(text.size(), kSize));
}

template <size_t kSize>
std::string Get(const char (&field)[kSize]) {
  return {field, strnlen(field, kSize)};
}

// Returns the sum of all bytes, with spaces in place of the checksum.
unsigned ChecksumOf(Header header) {
  std::memset(header.checksum, ' ', sizeof(header.checksum));
  const auto* bytes = reinterpret_cast<const unsigned char*>(&header);
  return std::accumulate(bytes, bytes + sizeof(header), 0U);
}

void AppendFile(const ArchiveFile& file, int64_t time, std::string& tar) {
  Header header = {};
  Put(file.name, header.name);
  Put("0000644", header.mode);
  Put("0000000", header.uid);
  Put("0000000", header.gid);
  Put(absl::StrFormat("%011o", file.content.size()), header.size);
  Put(absl::StrFormat("%011o", time), header.time);
  header.type = '0';
  Put("ustar", header.magic);
  Put("00", header.version);
  Put(absl::StrFormat("%06o", ChecksumOf(header)), header.checksum);
  header.checksum[7] = ' ';
  tar.append(reinterpret_cast<const char*>(&header), sizeof(header));
  tar += file.content;
  tar.resize((tar.size() + kBlock - 1) / kBlock * kBlock);
}

std::string Compress(std::string& bytes) {
  z_stream stream = {};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, /*memLevel=*/8,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    std::abort();  // Out of memory.
  }
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

absl::StatusOr<std::string> Uncompress(std::string_view bytes) {
  z_stream stream = {};
  if (inflateInit2(&stream, kGzip) != Z_OK) return absl::ResourceExhaustedError("out of memory");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  std::vector<char> chunk(256 * 1024);
  int result = Z_OK;
  while (result == Z_OK && out.size() <= kMaxBytes) {
    stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_out = static_cast<uInt>(chunk.size());
    result = inflate(&stream, Z_NO_FLUSH);
    out.append(chunk.data(), chunk.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (out.size() > kMaxBytes) return absl::InvalidArgumentError("the archive is too large");
  if (result != Z_STREAM_END) return absl::InvalidArgumentError("not a complete gzip file");
  return out;
}

using Json = nlohmann::ordered_json;

}  // namespace

std::string MakeArchive(const std::vector<ArchiveFile>& files, int64_t time) {
  std::string tar;
  for (const ArchiveFile& file : files) AppendFile(file, time, tar);
  tar.append(2 * kBlock, '\0');
  return Compress(tar);
}

absl::StatusOr<std::map<std::string, std::string>> ReadArchive(std::string_view bytes) {
  const absl::StatusOr<std::string> tar = Uncompress(bytes);
  if (!tar.ok()) return tar.status();
  std::map<std::string, std::string> files;
  for (size_t at = 0; at + kBlock <= tar->size();) {
    Header header;
    std::memcpy(&header, tar->data() + at, sizeof(header));
    at += kBlock;
    if (header.name[0] == '\0') break;  // End of the archive.
    if (std::strtoul(Get(header.checksum).c_str(), nullptr, 8) != ChecksumOf(header)) {
      return absl::InvalidArgumentError("not a tar archive");
    }
    const size_t size = std::strtoull(Get(header.size).c_str(), nullptr, 8);
    if (size > tar->size() - at) return absl::InvalidArgumentError("incomplete tar archive");
    if (header.type == '0' || header.type == '\0') {
      std::string name = Get(header.name);
      if (name.starts_with("./")) name.erase(0, 2);
      files[name] = tar->substr(at, size);
    }
    at += (size + kBlock - 1) / kBlock * kBlock;
  }
  return files;
}

std::string ToJsonLine(const google::protobuf::Message& message) {
  std::string json;
  // Fails only for Timestamps and Durations outside their range.
  if (!google::protobuf::util::MessageToJsonString(message, &json).ok()) json = "{}";
  return json + "\n";
}

absl::Status FromJson(std::string_view json, google::protobuf::Message& message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // Fields of newer versions.
  const auto status =
      google::protobuf::util::JsonStringToMessage(std::string(json), &message, options);
  if (status.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(std::string(status.message()));
}

std::string BundleInfoJson(const BundleInfo& info) {
  Json json = {{"created", info.created},
               {"version", info.version},
               {"hashedNames", info.hashed_names},
               {"missing", Json::array()}};
  for (const MissingPart& part : info.missing) {
    json["missing"].push_back({{"file", part.file}, {"reason", part.reason}});
  }
  return JsonText(json);
}

std::string ReasonFor(std::string_view bundle_info_json, std::string_view file) {
  try {
    const Json json = Json::parse(bundle_info_json);
    for (const Json& part : json.at("missing")) {
      if (part.at("file") == file) return part.at("reason");
    }
  } catch (const Json::exception&) {  // Not written by svcmapctl.
  }
  return "";
}

}  // namespace svcmap::api
