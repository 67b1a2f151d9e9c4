#include <algorithm>
#include <fstream>
#include <istream>
#include <utility>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/evidence/ledger_file.h"
#include "harness/evidence/ledger_record.h"
#include "harness/evidence/ledger_source.h"

namespace dettax {
namespace {

class FileSource : public LedgerSource {
 public:
  FileSource(std::unique_ptr<std::istream> owned, std::istream& in, std::string name)
      : owned_(std::move(owned)), in_(in), name_(std::move(name)) {
    in_.seekg(0, std::ios::end);
    size_ = in_.tellg();
    read_head();
    while (!ended_ && !torn_) read_record();
    drop_torn_block();
    if (ended_ && at_ != size_) fail("there is more behind its end");
    for (const auto& [step, blocks] : blocks_) steps_.push_back(step);
  }

  const LedgerHead& head() const override { return head_; }
  size_t ranks() const override { return ranks_; }
  bool torn() const override { return torn_; }
  const LedgerNames& names() const override { return names_; }
  const std::vector<int64_t>& steps() const override { return steps_; }
  int64_t entries() const override { return entries_; }

  void load(size_t rank, int64_t step, LedgerColumns& into) override {
    into.clear();
    const auto of_step = blocks_.find(step);
    if (of_step == blocks_.end() || of_step->second.at(rank) < 0) return;
    at_ = of_step->second[rank];
    const RecordHeader header = *read_header();
    if (!read_payload(header, into.values)) fail("its block was damaged");
    guard([&] {
      read_numbers(unpack(packed_, header.unpacked_bytes), header.count, into.names);
      if (std::ranges::any_of(into.names, [&](uint32_t n) { return n >= names_.size(); }))
        throw Error(ErrorKind::config, "its block has a name that is not there");
    });
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::config, fmt::format("{}: byte {}: {}", name_, at_, what));
  }
  template <class Body>
  void guard(Body body) const {
    try {
      body();
    } catch (const Error& error) {
      fail(error.what());
    }
  }

  // Nothing where the file ends first. A disk that lost its power may leave zeros.
  std::optional<RecordHeader> read_header() {
    RecordHeader header;
    if (size_ - at_ < int64_t{sizeof header}) return std::nullopt;
    in_.clear();
    in_.seekg(at_);
    in_.read(reinterpret_cast<char*>(&header), sizeof header);
    if (!in_) fail("cannot be read");
    if (header.tag == std::array<char, 4>{}) return std::nullopt;
    if (std::string_view(header.tag.data(), kLedgerMark.size()) != kLedgerMark ||
        header.header_check != check_of(header))
      fail("is no record of a ledger; was the file damaged?");
    if (size_ - at_ - int64_t{sizeof header} < header.payload_bytes()) return std::nullopt;
    return header;
  }

  // Behind the header just read; whether it is what was written.
  bool read_payload(const RecordHeader& header, std::vector<Fingerprint>& values) {
    packed_.resize(header.packed_bytes);
    values.resize(header.is(RecordTag::block) ? header.count : 0);
    in_.read(packed_.data(), static_cast<std::streamsize>(packed_.size()));
    in_.read(reinterpret_cast<char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(Fingerprint)));
    if (!in_) fail("cannot be read");
    return check_of(packed_, values) == header.payload_check;
  }

  void read_head() {
    char first = 0;
    in_.clear();
    in_.seekg(0);
    in_.get(first);
    if (first == '{') fail("a ledger in lines of JSON, as earlier versions wrote; write it anew");
    const auto header = read_header();
    if (!header) fail("the file ends here; it was cut off before any step");
    if (!header->is(RecordTag::head)) fail("is no ledger: it does not begin with a head");
    if (header->step != kLedgerVersion)
      fail(fmt::format("a ledger of version {}; this program reads {}", header->step,
                       kLedgerVersion));
    if (!read_payload(*header, unused_)) fail("its head was damaged");
    guard([&] { head_ = parse_ledger_head(packed_); });
    ranks_ = header->rank;
    at_ += int64_t{sizeof *header} + header->payload_bytes();
  }

  void read_record() {
    const auto header = read_header();
    if (!header) {
      torn_ = true;
      return;
    }
    if (header->is(RecordTag::names)) {
      if (!read_payload(*header, unused_)) fail("its names were damaged");
      guard([&] { take_names(unpack(packed_, header->unpacked_bytes)); });
    } else if (header->is(RecordTag::block)) {
      take_block(*header);
    } else if (header->is(RecordTag::end)) {
      ended_ = true;
      if (header->count != count_) fail("blocks are missing: its end counts others");
    } else {
      fail("is a record of no known kind");
    }
    at_ += int64_t{sizeof *header} + header->payload_bytes();
  }

  void take_names(const std::string& lines) {
    size_t begin = 0;
    for (size_t end = lines.find('\n'); end != lines.npos; end = lines.find('\n', begin)) {
      const size_t tab = lines.find('\t', begin);
      if (tab == lines.npos || tab > end) throw Error(ErrorKind::config, "a name has no tensor");
      const std::string_view all(lines);
      names_.number_of(all.substr(begin, tab - begin), all.substr(tab + 1, end - tab - 1));
      begin = end + 1;
    }
  }

  void take_block(const RecordHeader& header) {
    if (header.rank >= ranks_) fail(fmt::format("a block of rank {} of {}", header.rank, ranks_));
    auto& of_step = blocks_.try_emplace(header.step, ranks_, int64_t{-1}).first->second;
    if (of_step[header.rank] >= 0)
      fail(fmt::format("a second block of step {}, rank {}", header.step, header.rank));
    of_step[header.rank] = at_;
    entries_ += header.count;
    ++count_;
    last_ = {header.step, header.rank};
  }

  // The last block of a file without an end may have its header and room, but not yet its bytes.
  void drop_torn_block() {
    if (!torn_ || count_ == 0) return;
    const auto of_step = blocks_.find(last_.first);
    at_ = of_step->second[last_.second];
    const RecordHeader header = *read_header();
    std::vector<Fingerprint> values;
    if (read_payload(header, values)) return;
    of_step->second[last_.second] = -1;
    entries_ -= header.count;
    if (std::ranges::all_of(of_step->second, [](int64_t at) { return at < 0; }))
      blocks_.erase(of_step);
  }

  std::unique_ptr<std::istream> owned_;
  std::istream& in_;
  const std::string name_;
  int64_t size_ = 0, at_ = 0, entries_ = 0;
  LedgerHead head_;
  size_t ranks_ = 0;
  LedgerNames names_;
  std::map<int64_t, std::vector<int64_t>> blocks_;  // by step and rank, where in the file; -1: none
  std::vector<int64_t> steps_;
  std::pair<int64_t, uint32_t> last_;
  uint32_t count_ = 0;
  bool ended_ = false, torn_ = false;
  std::string packed_;
  std::vector<Fingerprint> unused_;
};

class MemorySource : public LedgerSource {
 public:
  explicit MemorySource(const Ledger& ledger) : ledger_(ledger), ranks_(ledger.ranks.size()) {
    std::map<int64_t, bool> steps;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (const LedgerEntry& entry : ledger.ranks[rank]) {
        ranks_[rank][entry.step].add(names_.number_of(entry.path, entry.tensor), entry.value);
        steps[entry.step] = true;
        ++entries_;
      }
    }
    for (const auto& [step, unused] : steps) steps_.push_back(step);
  }

  const LedgerHead& head() const override { return ledger_; }
  size_t ranks() const override { return ranks_.size(); }
  bool torn() const override { return ledger_.torn; }
  const LedgerNames& names() const override { return names_; }
  const std::vector<int64_t>& steps() const override { return steps_; }
  int64_t entries() const override { return entries_; }
  void load(size_t rank, int64_t step, LedgerColumns& into) override {
    const auto found = ranks_.at(rank).find(step);
    if (found == ranks_[rank].end()) {
      into.clear();
    } else {
      into = found->second;
    }
  }

 private:
  const Ledger& ledger_;
  LedgerNames names_;
  std::vector<std::map<int64_t, LedgerColumns>> ranks_;
  std::vector<int64_t> steps_;
  int64_t entries_ = 0;
};

}  // namespace

std::unique_ptr<LedgerSource> open_ledger(const std::filesystem::path& path) {
  auto file = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*file) throw Error(ErrorKind::config, path.string() + ": no such ledger, or not readable");
  std::istream& in = *file;
  return std::make_unique<FileSource>(std::move(file), in, path.string());
}

std::unique_ptr<LedgerSource> open_ledger(std::istream& in, const std::string& name) {
  return std::make_unique<FileSource>(nullptr, in, name);
}

std::unique_ptr<LedgerSource> view_ledger(const Ledger& ledger) {
  return std::make_unique<MemorySource>(ledger);
}

Ledger read_ledger(std::istream& in, const std::string& name) {
  const auto source = open_ledger(in, name);
  Ledger ledger;
  static_cast<LedgerHead&>(ledger) = source->head();
  ledger.torn = source->torn();
  ledger.ranks.resize(source->ranks());
  LedgerColumns columns;
  for (const int64_t step : source->steps()) {
    for (size_t rank = 0; rank < source->ranks(); ++rank) {
      source->load(rank, step, columns);
      for (size_t i = 0; i < columns.size(); ++i) {
        const LedgerName& entry = source->names().at(columns.names[i]);
        ledger.ranks[rank].push_back({step, entry.path, entry.tensor, columns.values[i]});
      }
    }
  }
  return ledger;
}

}  // namespace dettax
