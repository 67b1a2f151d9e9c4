#include "harness/evidence/ledger_record.h"

#include <zlib.h>

#include "harness/base/error.h"

namespace dettax {

uint32_t check_of(RecordHeader header) {
  header.header_check = 0;
  const Fingerprint sum = fingerprint(&header, sizeof header / sizeof(uint32_t), sizeof(uint32_t));
  return static_cast<uint32_t>(fingerprint_key(sum.lane0 ^ std::rotl(sum.lane1, 32)) >> 32U);
}

uint64_t check_of(std::string_view packed, const std::vector<Fingerprint>& values) {
  Fingerprint sum = fingerprint(packed.data(), packed.size(), 1);
  // Behind any packed part, whose bytes are fewer than 2^32.
  sum += fingerprint(values.data(), 2 * values.size(), sizeof(uint64_t), uint64_t{1} << 33U);
  return sum.lane0;
}

std::string pack(std::string_view bytes) {
  uLongf size = compressBound(bytes.size());
  std::string packed(size, '\0');
  const int result =
      compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), Z_BEST_SPEED);
  if (result != Z_OK) throw Error(ErrorKind::infrastructure, "zlib: out of memory");
  packed.resize(size);
  return packed;
}

std::string unpack(std::string_view packed, size_t unpacked_bytes) {
  std::string bytes(unpacked_bytes, '\0');
  uLongf size = unpacked_bytes;
  const int result = uncompress(reinterpret_cast<Bytef*>(bytes.data()), &size,
                                reinterpret_cast<const Bytef*>(packed.data()), packed.size());
  if (result != Z_OK || size != unpacked_bytes)
    throw Error(ErrorKind::config, "its packed part does not unpack");
  return bytes;
}

std::string number_bytes(const std::vector<uint32_t>& numbers) {
  std::string bytes;
  bytes.reserve(numbers.size());
  int64_t before = -1;
  for (const uint32_t number : numbers) {
    const int64_t delta = int64_t{number} - before;
    auto zigzag = (static_cast<uint64_t>(delta) << 1U) ^ static_cast<uint64_t>(delta >> 63);
    for (; zigzag >= 128; zigzag >>= 7U) bytes += static_cast<char>(zigzag | 128U);
    bytes += static_cast<char>(zigzag);
    before = number;
  }
  return bytes;
}

void read_numbers(std::string_view bytes, size_t count, std::vector<uint32_t>& numbers) {
  constexpr unsigned kMostBits = 35;  // of a difference of two numbers of 32 bits
  numbers.resize(count);
  int64_t before = -1;
  size_t at = 0;
  for (uint32_t& number : numbers) {
    uint64_t zigzag = 0;
    for (unsigned shift = 0;; shift += 7) {
      if (at == bytes.size() || shift > kMostBits)
        throw Error(ErrorKind::config, "its names' numbers end too early");
      const auto byte = static_cast<unsigned char>(bytes[at++]);
      zigzag |= uint64_t{byte & 127U} << shift;
      if (byte < 128) break;
    }
    const int64_t delta = static_cast<int64_t>(zigzag >> 1U) ^ -static_cast<int64_t>(zigzag & 1U);
    before += delta;
    number = static_cast<uint32_t>(before);
  }
  if (at != bytes.size()) throw Error(ErrorKind::config, "it has more names than fingerprints");
}

}  // namespace dettax
