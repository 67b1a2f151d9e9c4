#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dettax {

// Capture files (.capture): only ever appended to, so that a process may be killed at any moment and what it wrote is good. A file is
// kCaptureMagic and then chunks, each a head and its bytes, little-endian, written by one call:
//   head     key=value lines: host, process, rank, world_size, and others that readers pass over
//   names    of texts in the order of their numbers: number and length (4 bytes each), then the text
//   records  DeviceRecords one behind the other; what they name stands in front
//   state    key=value lines, of which the last ones count: window, losses, notes
//   end      key=value lines: reason=window|exit|SIGTERM; nothing comes behind
// A file without `end` is of a process that was killed. A head that is whole has a sum of its own, so that a chunk that ends with the
// file was cut off, and any other fault is damage.
inline constexpr std::string_view kCaptureMagic = "dettax capture 1\n";

enum class ChunkKind : uint32_t { head = 1, names, records, state, end };

struct ChunkHead {
  uint32_t kind = 0;
  uint32_t reserved = 0;
  uint64_t bytes = 0;     // behind the head
  uint64_t sum = 0;       // of them
  uint64_t head_sum = 0;  // of what stands in front of it
};
static_assert(sizeof(ChunkHead) == 32);

// FNV-1a: enough to tell damage, which is no attack.
inline uint64_t checksum(const void* data, size_t bytes) {
  uint64_t sum = 0xcbf29ce484222325U;
  for (size_t i = 0; i < bytes; ++i)
    sum = (sum ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3U;
  return sum;
}

inline ChunkHead chunk_head(ChunkKind kind, std::string_view bytes) {
  ChunkHead head{static_cast<uint32_t>(kind), 0, bytes.size(), checksum(bytes.data(), bytes.size()),
                 0};
  head.head_sum = checksum(&head, offsetof(ChunkHead, head_sum));
  return head;
}

}  // namespace dettax
