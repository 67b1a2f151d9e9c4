#include "harness/train/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/file_handle.h"

namespace dettax {
namespace {

using nlohmann::json;
static_assert(std::endian::native == std::endian::little);

constexpr const char* kMetadata = "__metadata__";
constexpr int64_t kLengthBytes = 8;
constexpr int64_t kHeaderMost = 100'000'000;  // as the format has it

struct TypeName {
  StateType type;
  const char* name;
};
constexpr std::array<TypeName, 4> kTypes{{{StateType::f32, "F32"},
                                          {StateType::f64, "F64"},
                                          {StateType::i64, "I64"},
                                          {StateType::u64, "U64"}}};

const char* name_of(StateType type) {
  return std::ranges::find(kTypes, type, &TypeName::type)->name;
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw Error(ErrorKind::config, path.string() + ": is no sound safetensors file: " + why);
}

// Bytes of a shape; -1 where it is none.
int64_t bytes_of(const std::vector<int64_t>& shape, StateType type) {
  auto bytes = static_cast<int64_t>(size_of(type));
  for (const int64_t extent : shape) {
    if (extent < 0) return -1;
    if (extent > 0 && bytes > std::numeric_limits<int64_t>::max() / extent) return -1;
    bytes *= extent;
  }
  return bytes;
}

std::string header_text(const std::vector<SafeTensorData>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  header[kMetadata] = metadata;
  int64_t at = 0;
  for (const SafeTensorData& tensor : tensors) {
    const int64_t end = at + bytes_of(tensor.shape, tensor.type);
    header[tensor.name] = {
        {"dtype", name_of(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that data are aligned
  return text;
}

// A name that stands twice would hide a tensor.
json parse_header(const std::filesystem::path& path, const std::string& text) {
  std::set<std::string> names;
  std::string twice;
  const auto see = [&](int depth, json::parse_event_t event, const json& value) {
    if (depth != 1 || event != json::parse_event_t::key) return true;
    const auto name = value.get<std::string>();
    if (!names.insert(name).second) twice = name;
    return true;
  };
  const json header = json::parse(text, see, false);
  if (!header.is_object()) refuse(path, "its header is no JSON object");
  if (!twice.empty()) refuse(path, fmt::format("its header has \"{}\" twice", twice));
  return header;
}

SafeTensor read_entry(const std::filesystem::path& path, const std::string& name,
                      const json& value) {
  SafeTensor tensor;
  tensor.name = name;
  try {
    if (value.size() != 3)
      refuse(
          path,
          fmt::format("tensor {}: dtype, shape and data_offsets are what it must have, and no more",
                      name));
    const auto dtype = value.at("dtype").get<std::string>();
    const auto type =
        std::ranges::find_if(kTypes, [&](const TypeName& t) { return dtype == t.name; });
    if (type == kTypes.end())
      refuse(path, fmt::format("tensor {}: dtype \"{}\"; F32, F64, I64 or U64 would be right", name,
                               dtype));
    tensor.type = type->type;
    for (const json& extent : value.at("shape")) {
      if (!extent.is_number_unsigned())
        refuse(path, fmt::format("tensor {}: its shape is no row of sizes", name));
      tensor.shape.push_back(extent.get<int64_t>());
    }
    const json& offsets = value.at("data_offsets");
    if (offsets.size() != 2 || !offsets.at(0).is_number_unsigned() ||
        !offsets.at(1).is_number_unsigned())
      refuse(path, fmt::format("tensor {}: its data_offsets are no two places", name));
    tensor.begin = offsets.at(0).get<int64_t>();
    tensor.end = offsets.at(1).get<int64_t>();
  } catch (const json::exception&) {
    refuse(
        path,
        fmt::format("tensor {}: its entry has another form than dtype, shape, data_offsets", name));
  }
  const int64_t bytes = bytes_of(tensor.shape, tensor.type);
  if (bytes < 0 || tensor.begin < 0 || tensor.end < tensor.begin ||
      tensor.end - tensor.begin != bytes)
    refuse(path, fmt::format("tensor {}: its shape and its data_offsets do not agree", name));
  return tensor;
}

void check_metadata(const std::filesystem::path& path, const json& value) {
  const auto is_text = [](const json& one) { return one.is_string(); };
  if (!value.is_object() || !std::all_of(value.begin(), value.end(), is_text))
    refuse(path, "its metadata are no texts");
}

// Without holes, without overlaps, to the end of the file.
void check_places(const std::filesystem::path& path, const std::vector<SafeTensor>& tensors,
                  int64_t data_bytes) {
  int64_t at = 0;
  for (const SafeTensor& tensor : tensors) {
    if (tensor.begin != at)
      refuse(path, fmt::format("tensor {}: begins at byte {} of the data, {} would be right",
                               tensor.name, tensor.begin, at));
    at = tensor.end;
  }
  if (at != data_bytes)
    refuse(path, fmt::format("its tensors have {} bytes, the file {}", at, data_bytes));
}

}  // namespace

int64_t write_safetensors(const std::filesystem::path& path,
                          const std::vector<SafeTensorData>& tensors,
                          const std::map<std::string, std::string>& metadata) {
  const std::string header = header_text(tensors, metadata);
  const uint64_t length = header.size();
  std::array<char, kLengthBytes> prefix{};
  std::memcpy(prefix.data(), &length, sizeof length);
  FileHandle file(path, O_WRONLY | O_CREAT | O_EXCL);
  file.write({prefix.data(), prefix.size()});
  file.write(header);
  int64_t bytes = kLengthBytes + static_cast<int64_t>(header.size());
  for (const SafeTensorData& tensor : tensors) {
    const int64_t size = bytes_of(tensor.shape, tensor.type);
    file.write({static_cast<const char*>(tensor.data), static_cast<size_t>(size)});
    bytes += size;
  }
  file.sync();
  file.close();
  return bytes;
}

SafeTensorFile::SafeTensorFile(const std::filesystem::path& path) : path_(path) {
  std::error_code error;
  const auto file_bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
  std::ifstream in;
  if (!error) in.open(path, std::ios::binary);  // a pipe has no size: to open it would wait
  if (error || !in)
    throw Error(ErrorKind::config,
                path.string() + ": cannot be read: " +
                    (error ? error : std::error_code(errno, std::generic_category())).message());
  uint64_t length = 0;
  std::array<char, kLengthBytes> prefix{};
  if (!in.read(prefix.data(), prefix.size())) refuse(path, "it is shorter than a header's length");
  std::memcpy(&length, prefix.data(), sizeof length);
  const int64_t room = std::min(file_bytes - kLengthBytes, kHeaderMost);
  if (length > static_cast<uint64_t>(room))
    refuse(path,
           fmt::format("its header should have {} bytes, there is room for {}", length, room));
  std::string text(length, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(length)))
    refuse(path, "it ends within its header");
  data_at_ = kLengthBytes + static_cast<int64_t>(length);

  const json header = parse_header(path, text);
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata) {
      check_metadata(path, value);
    } else {
      tensors_.push_back(read_entry(path, name, value));
    }
  }
  std::ranges::sort(tensors_, [](const SafeTensor& a, const SafeTensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_places(path, tensors_, file_bytes - data_at_);
}

const SafeTensor& SafeTensorFile::tensor(const std::string& name) const {
  const auto found = std::ranges::find(tensors_, name, &SafeTensor::name);
  if (found == tensors_.end())
    throw Error(ErrorKind::config, fmt::format("{}: has no tensor {}", path_.string(), name));
  return *found;
}

std::vector<char> SafeTensorFile::read(const SafeTensor& tensor) const {
  std::vector<char> bytes(static_cast<size_t>(tensor.end - tensor.begin));
  std::ifstream in(path_, std::ios::binary);
  in.seekg(data_at_ + tensor.begin);
  if (!in.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    throw Error(ErrorKind::config,
                fmt::format("{}: tensor {} cannot be read", path_.string(), tensor.name));
  return bytes;
}

}  // namespace dettax
