#include <algorithm>
#include <ostream>

#include "harness/base/error.h"
#include "harness/evidence/ledger_file.h"
#include "harness/evidence/ledger_record.h"
#include "harness/evidence/ledger_source.h"

namespace dettax {
namespace {

constexpr uint32_t kUnwritten = ~uint32_t{0};

void write_record(std::ostream& out, RecordTag tag, RecordHeader header, std::string_view packed,
                  const std::vector<Fingerprint>& values = {}) {
  std::ranges::copy(kLedgerMark, header.tag.begin());
  header.tag.back() = static_cast<char>(tag);
  header.packed_bytes = static_cast<uint32_t>(packed.size());
  header.payload_check = check_of(packed, values);
  header.header_check = check_of(header);
  out.write(reinterpret_cast<const char*>(&header), sizeof header);
  out.write(packed.data(), static_cast<std::streamsize>(packed.size()));
  out.write(reinterpret_cast<const char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(Fingerprint)));
}

}  // namespace

LedgerWriter::LedgerWriter(std::ostream& out, const LedgerHead& head, size_t ranks)
    : out_(out), ranks_(ranks) {
  const std::string text = head_text(head);
  RecordHeader header;
  header.rank = static_cast<uint32_t>(ranks);
  header.step = kLedgerVersion;
  header.unpacked_bytes = static_cast<uint32_t>(text.size());
  write_record(out_, RecordTag::head, header, text);
  flush();
}

void LedgerWriter::append(size_t rank, int64_t step, const LedgerNames& names,
                          const LedgerColumns& columns) {
  const std::lock_guard lock(mutex_);
  Rank& from = ranks_.at(rank);
  for (auto n = static_cast<uint32_t>(from.names.size()); n < names.size(); ++n)
    from.names.push_back(names.at(n));
  from.numbers.resize(from.names.size(), kUnwritten);
  from.waiting.push_back({step, columns});
  bool wrote = false;
  while (!ranks_[next_].waiting.empty()) {
    write_block(next_, ranks_[next_]);
    next_ = (next_ + 1) % ranks_.size();
    wrote = true;
  }
  if (wrote) flush();
}

// Those of the block that the file has not yet, in the block's order.
void LedgerWriter::write_names(Rank& rank, const LedgerColumns& columns) {
  const uint32_t before = names_.size();
  std::string lines;
  for (const uint32_t own : columns.names) {
    if (rank.numbers[own] != kUnwritten) continue;
    const LedgerName& name = rank.names[own];
    const uint32_t known = names_.size();
    rank.numbers[own] = names_.number_of(name.path, name.tensor);
    if (names_.size() > known)
      lines.append(name.path).append(1, '\t').append(name.tensor).append(1, '\n');
  }
  if (lines.empty()) return;
  RecordHeader header;
  header.count = names_.size() - before;
  header.unpacked_bytes = static_cast<uint32_t>(lines.size());
  write_record(out_, RecordTag::names, header, pack(lines));
}

void LedgerWriter::write_block(size_t number, Rank& rank) {
  Block block = std::move(rank.waiting.front());
  rank.waiting.pop_front();
  write_names(rank, block.columns);
  for (uint32_t& name : block.columns.names) name = rank.numbers[name];
  const std::string numbers = number_bytes(block.columns.names);
  RecordHeader header;
  header.rank = static_cast<uint32_t>(number);
  header.step = block.step;
  header.count = static_cast<uint32_t>(block.columns.size());
  header.unpacked_bytes = static_cast<uint32_t>(numbers.size());
  write_record(out_, RecordTag::block, header, pack(numbers), block.columns.values);
  ++blocks_;
}

void LedgerWriter::finish() {
  const std::lock_guard lock(mutex_);
  // Ranks that have as many steps as the others leave nothing here.
  const auto waits = [](const Rank& rank) { return !rank.waiting.empty(); };
  while (std::ranges::any_of(ranks_, waits)) {
    if (waits(ranks_[next_])) write_block(next_, ranks_[next_]);
    next_ = (next_ + 1) % ranks_.size();
  }
  RecordHeader header;
  header.count = blocks_;
  write_record(out_, RecordTag::end, header, {});
  flush();
}

void LedgerWriter::flush() {
  if (!out_.flush()) throw Error(ErrorKind::infrastructure, "the ledger could not be written");
}

void write_ledger(std::ostream& out, const Ledger& ledger) {
  const auto source = view_ledger(ledger);
  LedgerWriter writer(out, ledger, ledger.ranks.size());
  LedgerColumns columns;
  for (const int64_t step : source->steps()) {
    for (size_t rank = 0; rank < ledger.ranks.size(); ++rank) {
      source->load(rank, step, columns);
      writer.append(rank, step, source->names(), columns);
    }
  }
  writer.finish();
}

}  // namespace dettax
