#include "exporters/json_writer.h"

#include <cmath>
#include <ostream>

#include "harness/base/format.h"
#include "harness/base/text.h"

namespace dettax {

void JsonWriter::new_line() {
  if (static_cast<int>(empty_.size()) > indented_) return;
  text_ += '\n';
  text_.append(empty_.size(), ' ');
}

void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (empty_.empty()) return;
  if (!empty_.back()) text_ += static_cast<int>(empty_.size()) <= indented_ ? "," : ", ";
  empty_.back() = false;
  new_line();
}

void JsonWriter::open(char bracket) {
  separate();
  text_ += bracket;
  empty_.push_back(true);
}

void JsonWriter::close(char bracket) {
  constexpr size_t kEnough = 1U << 16U;
  const bool lines = !empty_.back() && static_cast<int>(empty_.size()) <= indented_;
  empty_.pop_back();
  if (lines) {
    text_ += '\n';
    text_.append(empty_.size(), ' ');
  }
  text_ += bracket;
  if (!empty_.empty() && text_.size() < kEnough) return;
  out_.write(text_.data(), static_cast<std::streamsize>(text_.size()));
  text_.clear();
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  append_json_string(text_, name);
  text_ += ": ";
  after_key_ = true;
  return *this;
}

void JsonWriter::value(std::string_view text) {
  separate();
  append_json_string(text_, text);
}

void JsonWriter::value(bool yes) {
  separate();
  text_ += yes ? "true" : "false";
}

void JsonWriter::value(int64_t number) {
  separate();
  text_ += std::to_string(number);
}

void JsonWriter::value(uint64_t number) {
  separate();
  text_ += std::to_string(number);
}

void JsonWriter::null() {
  separate();
  text_ += "null";
}

void JsonWriter::number(double value) {
  separate();
  text_ += std::isfinite(value) ? format_number(value) : "null";
}

void JsonWriter::number(std::string_view name, double value) {
  key(name).number(value);
  if (std::isfinite(value)) return;
  const char* what = std::isnan(value) ? "not a number"
                     : value > 0       ? "positive infinity"
                                       : "negative infinity";
  member(std::string(name) + "_reason", what);
}

}  // namespace dettax
