#include "harness/train/token_source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/random.h"

namespace dettax {
namespace {

constexpr double kZipfShift = 2.7;

class ZipfSource : public TokenSource {
 public:
  ZipfSource(int64_t vocabulary, double exponent) {
    double sum = 0;
    for (int64_t id = 0; id < vocabulary; ++id) {
      sum += std::pow(static_cast<double>(id + 1) + kZipfShift, -exponent);
      cumulative_.push_back(sum);
    }
  }

  void sample(uint64_t seed, int64_t step, int64_t index,
              std::span<int32_t> tokens) const override {
    const RandomKey key{seed, RandomPurpose::data, 0};
    std::array<uint32_t, 4> words{};
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i % 4 == 0) {
        words = random_words(key, static_cast<uint64_t>(step),
                             static_cast<uint64_t>(index) << 32U | i / 4);
      }
      tokens[i] = token_at(uniform(words[i % 4]));
    }
  }

 private:
  int32_t token_at(double u) const {
    const auto found =
        std::upper_bound(cumulative_.begin(), cumulative_.end() - 1, u * cumulative_.back());
    return static_cast<int32_t>(found - cumulative_.begin());
  }

  std::vector<double> cumulative_;
};

class TextSource : public TokenSource {
 public:
  explicit TextSource(std::vector<char> text) : text_(std::move(text)) {}

  void sample(uint64_t seed, int64_t step, int64_t index,
              std::span<int32_t> tokens) const override {
    const auto words = random_words({seed, RandomPurpose::data, 1}, static_cast<uint64_t>(step),
                                    static_cast<uint64_t>(index));
    const uint64_t positions = text_.size() - tokens.size() + 1;
    const uint64_t start = (static_cast<uint64_t>(words[0]) << 32U | words[1]) % positions;
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<unsigned char>(text_[start + i]);
  }

 private:
  std::vector<char> text_;
};

// What is wrong with a text is said when the case is loaded (harness/plan/data_load.cpp); here it can only have changed since.
std::unique_ptr<TokenSource> make_text_source(const Case& planned) {
  const std::string& path = planned.data.path;
  std::error_code gone;
  std::vector<char> text;
  if (std::filesystem::is_regular_file(path, gone)) {
    std::ifstream file(path, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  const bool usable = planned.model.vocabulary >= 256 &&
                      static_cast<int64_t>(text.size()) > planned.batch.sequence_length;
  if (!usable) {
    throw Error(ErrorKind::config,
                "data.path: " + path + ": is not the text that was planned with");
  }
  return std::make_unique<TextSource>(std::move(text));
}

}  // namespace

std::unique_ptr<TokenSource> make_token_source(const Case& planned) {
  if (planned.data.kind == "text") return make_text_source(planned);
  if (planned.data.kind == "zipf") {
    return std::make_unique<ZipfSource>(planned.model.vocabulary, planned.data.zipf_exponent);
  }
  throw Error(ErrorKind::config,
              "data.kind: \"" + planned.data.kind + "\" is unknown; zipf or text would be right");
}

}  // namespace dettax
