#pragma once

#include <cstdint>
#include <deque>
#include <iosfwd>
#include <mutex>
#include <string_view>
#include <vector>

#include "harness/evidence/ledger.h"

namespace dettax {

// A ledger's file is a row of records, appended while the run goes on. Each has a header of 40 bytes,
// little-endian, and a payload:
//
//   bytes   of a header
//   0..3    tag: DTXh head, DTXn names, DTXb block, DTXe end
//   4..7    rank of a block; number of ranks in the head
//   8..15   step of a block (-1: after the reset); version of the form in the head (2)
//   16..19  count: entries of a block, names, blocks in all (end)
//   20..23  bytes of the packed part
//   24..27  the same unpacked
//   28..31  check of the header: its fingerprint as ten words, these as 0, mixed to 32 bits
//   32..39  check of the payload: lane0 of its fingerprint
//
// The head's payload is JSON. Names and blocks have a part packed by zlib's deflate: lines
// "path<tab>tensor", numbered through the file from 0; and the numbers of a block's names as
// differences from the one before, zigzag, 7 bits a byte, low first. Behind it a block has its
// fingerprints as they are, 16 bytes each: random bits do not pack.
//
// Blocks stand by step, then by rank, so that equal runs leave equal bytes. A file without its end was
// cut off; what is whole in it counts.
inline constexpr std::string_view kLedgerMark = "DTX";  // what every tag begins with
inline constexpr int64_t kLedgerVersion = 2;

// Appends the steps of all ranks to a stream as they end. Safe from one thread a rank.
class LedgerWriter {
 public:
  LedgerWriter(std::ostream& out, const LedgerHead& head, size_t ranks);
  // The next step of this rank. Held back only until ranks before it have ended theirs. Error{infrastructure} when the stream fails.
  void append(size_t rank, int64_t step, const LedgerNames& names, const LedgerColumns& columns);
  // Whatever is held back, and the end.
  void finish();

 private:
  struct Block {
    int64_t step = 0;
    LedgerColumns columns;  // numbers are the rank's own
  };
  struct Rank {
    std::vector<LedgerName> names;  // by the rank's own number
    std::vector<uint32_t> numbers;  // in the file, of those that were written
    std::deque<Block> waiting;
  };
  void write_names(Rank& rank, const LedgerColumns& columns);
  void write_block(size_t number, Rank& rank);
  void flush();

  std::ostream& out_;
  std::mutex mutex_;
  std::vector<Rank> ranks_;
  LedgerNames names_;  // of the file
  size_t next_ = 0;    // whose block comes next
  uint32_t blocks_ = 0;
};

}  // namespace dettax
