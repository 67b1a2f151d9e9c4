#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/train/state.h"

namespace dettax {

// The safetensors format (github.com/huggingface/safetensors): 8 bytes length of the header, little-endian; the header, JSON; then the
// tensors' bytes, one behind the other without holes. Of its types those that a state has.
struct SafeTensor {
  std::string name;
  StateType type = StateType::f32;
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  // bytes behind the header
};

// A file that is about to be written. The bytes are borrowed.
struct SafeTensorData {
  std::string name;
  StateType type = StateType::f32;
  std::vector<int64_t> shape;
  const void* data = nullptr;
};
// Writes and syncs a new file. Error{infrastructure} when the disk does not take it. Returns the file's size in bytes.
int64_t write_safetensors(const std::filesystem::path& path,
                          const std::vector<SafeTensorData>& tensors,
                          const std::map<std::string, std::string>& metadata);

// A file whose header has been checked: types, shapes, offsets and the file's size agree. Error{config} in one line that names the file,
// and the tensor where it is one, for anything else.
class SafeTensorFile {
 public:
  explicit SafeTensorFile(const std::filesystem::path& path);

  const SafeTensor& tensor(const std::string& name) const;
  std::vector<char> read(const SafeTensor& tensor) const;

 private:
  std::filesystem::path path_;
  int64_t data_at_ = 0;
  std::vector<SafeTensor> tensors_;  // as they lie
};

}  // namespace dettax
