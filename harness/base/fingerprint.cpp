#include "harness/base/fingerprint.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/fingerprint_kernel.h"

namespace dettax {
namespace {

// Words of the scalar definition: bits of `T`, zero-extended; an 8-byte element is two.
template <typename T>
Fingerprint scalar_sum(const unsigned char* data, size_t count, uint64_t first_index) {
  Fingerprint sum;
  for (size_t i = 0; i < count; ++i) {
    T word;
    std::memcpy(&word, data + i * sizeof(T), sizeof(T));
    sum += fingerprint_element(word, first_index + i);
  }
  return sum;
}

void check_element_bytes(size_t element_bytes) {
  if (element_bytes == 1 || element_bytes == 2 || element_bytes == 4 || element_bytes == 8) return;
  throw Error(
      ErrorKind::internal,
      fmt::format("fingerprint: an element of {} bytes; it must have 1, 2, 4 or 8", element_bytes));
}

}  // namespace

Fingerprint fingerprint_scalar(const void* data, size_t count, size_t element_bytes,
                               uint64_t first_index) {
  check_element_bytes(element_bytes);
  const auto* bytes = static_cast<const unsigned char*>(data);
  switch (element_bytes) {
    case 1:
      return scalar_sum<uint8_t>(bytes, count, first_index);
    case 2:
      return scalar_sum<uint16_t>(bytes, count, first_index);
    case 4:
      return scalar_sum<uint32_t>(bytes, count, first_index);
    default:
      return scalar_sum<uint32_t>(bytes, 2 * count, 2 * first_index);
  }
}

Fingerprint fingerprint(const void* data, size_t count, size_t element_bytes,
                        uint64_t first_index) {
  check_element_bytes(element_bytes);
  if (element_bytes == 8) return fingerprint(data, 2 * count, 4, 2 * first_index);
  const auto* bytes = static_cast<const unsigned char*>(data);
  // The vectors begin where a vector's worth of positions does, so that none straddles a block.
  const size_t to_boundary = -first_index % kFingerprintAlignment;
  const size_t head = std::min(count, to_boundary);
  Fingerprint sum = fingerprint_scalar(bytes, head, element_bytes, first_index);
  const size_t done = head + fingerprint_vectors(bytes + head * element_bytes, count - head,
                                                 element_bytes, first_index + head, sum);
  sum += fingerprint_scalar(bytes + done * element_bytes, count - done, element_bytes,
                            first_index + done);
  return sum;
}

std::string to_string(const Fingerprint& value) {
  return fmt::format("{:016x}{:016x}", value.lane0, value.lane1);
}

Fingerprint parse_fingerprint(const std::string& text) {
  Fingerprint value;
  const char* begin = text.data();
  const bool lower_hex = text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (text.size() != 32 || !lower_hex) {
    throw Error(ErrorKind::config,
                fmt::format("\"{}\" is no fingerprint; it must be 32 lower-case hexadecimal digits",
                            text.substr(0, 64)));
  }
  std::from_chars(begin, begin + 16, value.lane0, 16);
  std::from_chars(begin + 16, begin + 32, value.lane1, 16);
  return value;
}

}  // namespace dettax
