#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "profiles/capture/capture.h"
#include "profiles/cupti/cupti_table.h"

namespace dettax {

// Copies CUPTI's records out of its buffers. Names are copied too, since their pointers do not last. Reads only what all versions since
// 12.5 have at the same place, but for what the loaded version is known to have.
class RecordDecoder {
 public:
  explicit RecordDecoder(const CuptiTable& cupti) : cupti_(cupti) {}

  // One NameTable for all calls. All records in the first `valid_bytes` of the buffer. What cannot be decoded is counted in the capture's losses.
  void decode(uint8_t* buffer, size_t valid_bytes, Capture& capture);

 private:
  void add(const CUpti_Activity& record, Capture& capture);
  uint32_t call_name(CUpti_CallbackDomain domain, CUpti_CallbackId id, NameTable& names);
  bool ends_with(const CUpti_Activity& last, size_t bytes) const;
  DeviceRecord overhead(const CUpti_Activity& record, NameTable& names) const;

  const CuptiTable& cupti_;
  std::unordered_map<uint64_t, uint32_t> call_names_;  // by domain and id
  std::unordered_map<int, size_t> bytes_of_kind_;      // as the loaded version has them
};

}  // namespace dettax
