#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "harness/evidence/ledger.h"

namespace dettax {

// The records of a ledger's file, as ledger_file.h describes them; shared by writer and reader.
static_assert(std::endian::native == std::endian::little);

enum class RecordTag : char { head = 'h', names = 'n', block = 'b', end = 'e' };

struct RecordHeader {
  std::array<char, 4> tag{};
  uint32_t rank = 0;
  int64_t step = 0;
  uint32_t count = 0;
  uint32_t packed_bytes = 0, unpacked_bytes = 0;
  uint32_t header_check = 0;
  uint64_t payload_check = 0;

  int64_t payload_bytes() const {
    const int64_t values = is(RecordTag::block) ? int64_t{count} * int64_t{sizeof(Fingerprint)} : 0;
    return int64_t{packed_bytes} + values;
  }
  bool is(RecordTag which) const { return tag[3] == static_cast<char>(which); }
};
static_assert(sizeof(RecordHeader) == 40);

uint32_t check_of(RecordHeader header);
uint64_t check_of(std::string_view packed, const std::vector<Fingerprint>& values);

// zlib's form; unpack throws Error{config} where it is none or has another length.
std::string pack(std::string_view bytes);
std::string unpack(std::string_view packed, size_t unpacked_bytes);

// A column of numbers as bytes, and back; Error{config} where the bytes are not `count` numbers.
std::string number_bytes(const std::vector<uint32_t>& numbers);
void read_numbers(std::string_view bytes, size_t count, std::vector<uint32_t>& numbers);

// The head as JSON, and back; Error{config} for what is no head.
std::string head_text(const LedgerHead& head);
LedgerHead parse_ledger_head(const std::string& text);

}  // namespace dettax
