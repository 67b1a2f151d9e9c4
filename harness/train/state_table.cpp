#include <charconv>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/train/rank_states.h"

namespace dettax {
namespace {

// An entry is a line; its fields end in a tab, which no name has.
class Fields {
 public:
  explicit Fields(std::string_view text) : rest_(text) {}
  bool done() const { return rest_.empty(); }

  std::string_view text() {
    const size_t end = rest_.find('\t');
    if (end == std::string_view::npos) fail();
    const std::string_view field = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return field;
  }
  template <typename T>
  T number(int base = 10) {
    const std::string_view field = text();
    T value{};
    const auto [end, error] =
        std::from_chars(field.data(), field.data() + field.size(), value, base);
    if (error != std::errc{} || end != field.data() + field.size()) fail();
    return value;
  }
  void end_line() {
    if (!rest_.starts_with('\n')) fail();
    rest_.remove_prefix(1);
  }

 private:
  [[noreturn]] static void fail() {
    throw Error(ErrorKind::internal, "a table of state has another form than it was sent in");
  }
  std::string_view rest_;
};

StateRange read_range(Fields& fields) {
  StateRange range;
  range.whole_rows = fields.number<int64_t>();
  range.whole_columns = fields.number<int64_t>();
  range.first_column = fields.number<int64_t>();
  range.columns = fields.number<int64_t>();
  range.first = fields.number<int64_t>();
  range.count = fields.number<int64_t>();
  range.blocks.clear();
  const auto blocks = fields.number<size_t>();
  for (size_t i = 0; i < blocks; ++i) {
    const auto first = fields.number<int64_t>();
    range.blocks.push_back({first, fields.number<int64_t>()});
  }
  return range;
}

}  // namespace

std::string encode_states(const std::vector<StateEntry>& entries) {
  std::string text;
  for (const StateEntry& entry : entries) {
    const StateRange& range = entry.range;
    text += fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t", entry.item, entry.name,
                        static_cast<int>(entry.type), range.whole_rows, range.whole_columns,
                        range.first_column, range.columns, range.first, range.count,
                        range.blocks.size());
    for (const RowBlock& block : range.blocks)
      text += fmt::format("{}\t{}\t", block.first, block.count);
    text += fmt::format("{:x}\t{:x}\t{}\t\n", entry.fingerprint.lane0, entry.fingerprint.lane1,
                        entry.value);
  }
  return text;
}

std::vector<StateEntry> decode_states(const std::string& text) {
  std::vector<StateEntry> entries;
  for (Fields fields(text); !fields.done(); fields.end_line()) {
    StateEntry& entry = entries.emplace_back();
    entry.item = fields.text();
    entry.name = fields.text();
    entry.type = static_cast<StateType>(fields.number<int>());
    entry.range = read_range(fields);
    entry.fingerprint.lane0 = fields.number<uint64_t>(16);
    entry.fingerprint.lane1 = fields.number<uint64_t>(16);
    entry.value = fields.text();
  }
  return entries;
}

}  // namespace dettax
