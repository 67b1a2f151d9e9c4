#include <filesystem>
#include <fstream>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/base/fingerprint.h"
#include "harness/plan/catalog.h"
#include "harness/plan/loaders.h"

namespace dettax {
namespace {

constexpr int64_t kByteTokens = 256;

// Why a file cannot be trained on, or nothing. One byte is one token, and a sequence needs the token
// after its last, too.
std::string text_fault(const std::string& path, bool written_whole, int64_t sequence_length) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    if (written_whole) return "does not exist";
    return "does not exist in " + std::filesystem::path(path).parent_path().string();
  }
  if (std::filesystem::is_directory(status)) return "is a folder; it must be a text file";
  if (!std::filesystem::is_regular_file(status))
    return "is a pipe or a device; it must be a text file";
  if (::access(path.c_str(), R_OK) != 0) return "cannot be read";
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) return "cannot be read: " + error.message();
  if (bytes > static_cast<uintmax_t>(sequence_length)) return "";
  return fmt::format("has {} bytes; a sequence of {} tokens needs at least {}", bytes,
                     sequence_length, sequence_length + 1);
}

// Whole, so that a run that is resumed and processes elsewhere find the same file.
std::string whole_path(const Yaml& value, const std::string& written) {
  return std::filesystem::absolute(from_where_it_stands(value, written))
      .lexically_normal()
      .string();
}

// Fills what a text is known by; false if it cannot be read to its end.
bool identify(Data& data) {
  std::ifstream file(data.path, std::ios::binary);
  std::vector<char> part(size_t{1} << 20U);
  Fingerprint sum;
  data.bytes = 0;
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())), file.gcount() > 0) {
    sum += fingerprint(part.data(), static_cast<size_t>(file.gcount()), 1,
                       static_cast<uint64_t>(data.bytes));
    data.bytes += file.gcount();
  }
  data.hash = to_string(sum);
  return file.eof() && !file.bad();
}

}  // namespace

void read_data(MapReader& reader, Case& planned, KnownTexts& texts) {
  const Yaml* node = reader.find("data");
  if (node == nullptr) return;
  Data& data = planned.data;
  MapReader keys(*node, reader.path("data"));
  const std::vector<std::string> kinds = {"zipf", "text"};
  if (const Yaml* kind = keys.find("kind"))
    data.kind = kinds[read_word(*kind, keys.path("kind"), kinds)];
  keys.number("zipf_exponent", data.zipf_exponent, {0, 10});
  std::string written;
  keys.text("path", written);
  std::string wanted;
  keys.text("hash", wanted);
  keys.finish();
  data.path = written;
  if (data.kind != "text") return;
  if (written.empty()) {
    throw keys.fault("path", "is missing; kind text needs the path of a file");
  }
  if (planned.model.vocabulary < kByteTokens) {
    throw keys.fault("kind",
                     fmt::format("text has {} tokens, one a byte; model {} has a "
                                 "vocabulary of {}",
                                 kByteTokens, planned.model.name, planned.model.vocabulary));
  }
  const bool written_whole = std::filesystem::path(written).is_absolute();
  data.path = whole_path(*node->find("path"), written);
  const std::string fault = text_fault(data.path, written_whole, planned.batch.sequence_length);
  if (!fault.empty()) throw keys.fault("path", fmt::format("\"{}\" {}", written, fault));
  const auto [known, is_new] = texts.try_emplace(data.path, data);
  if (is_new && !identify(known->second))
    throw keys.fault("path", fmt::format("\"{}\" cannot be read", written));
  data.bytes = known->second.bytes;
  data.hash = known->second.hash;
  if (!wanted.empty() && wanted != data.hash) {
    throw keys.fault("path", fmt::format("\"{}\" is not the text that was planned with: its hash "
                                         "is {}, not {}",
                                         written, data.hash, wanted));
  }
}

}  // namespace dettax
