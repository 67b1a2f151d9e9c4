#include "harness/train/token_source.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
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

std::vector<char> read_text(const std::string& path) {
  if (path.empty()) {
    throw Error(ErrorKind::config, "data.path: empty; kind text needs the name of a text file");
  }
  const auto fail = [&](const std::string& reason) {
    throw Error(ErrorKind::config, "data.path: cannot read " + path + ": " + reason);
  };
  std::error_code ignored;  // what cannot be asked cannot be opened either
  if (std::filesystem::is_directory(path, ignored)) fail("it is a folder, not a text file");
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(std::strerror(errno));
  std::vector<char> text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) fail("reading failed");
  return text;
}

std::unique_ptr<TokenSource> make_text_source(const Case& planned) {
  if (planned.model.vocabulary < 256) {
    throw Error(
        ErrorKind::config,
        "data.kind: text needs a vocabulary of at least 256 (its tokens are bytes); model " +
            planned.model.name + " has " + std::to_string(planned.model.vocabulary));
  }
  std::vector<char> text = read_text(planned.data.path);
  const int64_t needed = planned.batch.sequence_length + 1;
  if (static_cast<int64_t>(text.size()) < needed) {
    throw Error(ErrorKind::config, "data.path: " + planned.data.path + " has " +
                                       std::to_string(text.size()) + " bytes; sequences of " +
                                       std::to_string(planned.batch.sequence_length) +
                                       " tokens need at least " + std::to_string(needed));
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
