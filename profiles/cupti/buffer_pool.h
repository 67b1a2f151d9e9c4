#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace dettax {

// Buffers that CUPTI fills: a fixed number of one size, zeroed, aligned to pages. Asking, giving back and taking cost a lock and a few
// words; what is in them is read later. Memory is only touched where CUPTI writes.
class BufferPool {
 public:
  BufferPool(size_t count, size_t bytes);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  struct Filled {
    uint8_t* begin = nullptr;
    size_t valid_bytes = 0;
  };

  size_t bytes() const { return bytes_; }
  uint8_t* ask();  // null, and counted, if all are in use
  void give_back_filled(uint8_t* begin, size_t valid_bytes);
  std::optional<Filled> next_filled();  // oldest first
  void recycle(const Filled& filled);   // clears it for the next ask

  int64_t refused() const;
  size_t in_use() const;  // asked for and not given back

 private:
  const size_t count_, bytes_;
  uint8_t* memory_;
  mutable std::mutex mutex_;
  std::vector<uint8_t*> free_;
  std::vector<Filled> filled_;  // from next_ on
  size_t next_ = 0, in_use_ = 0;
  int64_t refused_ = 0;
};

}  // namespace dettax
