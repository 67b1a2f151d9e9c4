#include "harness/train/rank_states.h"

#include <algorithm>
#include <cstdint>

namespace dettax {

std::vector<std::string> gather_texts(Communicator& ranks, const std::string& own) {
  const auto count = static_cast<size_t>(ranks.size());
  std::vector<int64_t> sizes(count);
  const auto size = static_cast<int64_t>(own.size());
  ranks.all_gather(&size, sizes.data(), sizeof size);
  const auto longest = static_cast<size_t>(*std::ranges::max_element(sizes));
  std::vector<std::string> texts(count);
  if (longest == 0) return texts;
  std::string padded = own;
  padded.resize(longest);
  std::string all(longest * count, '\0');
  ranks.all_gather(padded.data(), all.data(), static_cast<int64_t>(longest));
  for (size_t r = 0; r < count; ++r)
    texts[r] = all.substr(r * longest, static_cast<size_t>(sizes[r]));
  return texts;
}

std::vector<StateEntry> describe_state(TrainStep& train) {
  std::vector<StateEntry> entries;
  for (const StateTensor& tensor : train.state())
    entries.push_back(describe_state(tensor, train.device()));
  return entries;
}

std::vector<std::vector<StateEntry>> gather_states(Communicator& ranks,
                                                   const std::vector<StateEntry>& own) {
  std::vector<std::vector<StateEntry>> tables;
  for (const std::string& text : gather_texts(ranks, encode_states(own)))
    tables.push_back(decode_states(text));
  return tables;
}

}  // namespace dettax
