#include "exporters/json_writer.h"

#include <cmath>
#include <ostream>
#include <string>

#include "exporters/escape.h"
#include "harness/base/format.h"

namespace dettax {

void JsonWriter::new_line() {
  if (static_cast<int>(empty_.size()) <= indented_) {
    out_ << '\n' << std::string(empty_.size(), ' ');
  }
}

void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (empty_.empty()) return;
  if (!empty_.back()) out_ << (static_cast<int>(empty_.size()) <= indented_ ? "," : ", ");
  empty_.back() = false;
  new_line();
}

void JsonWriter::open(char bracket) {
  separate();
  out_ << bracket;
  empty_.push_back(true);
}

void JsonWriter::close(char bracket) {
  const bool empty = empty_.back();
  const bool lines = static_cast<int>(empty_.size()) <= indented_;
  empty_.pop_back();
  if (!empty && lines) out_ << '\n' << std::string(empty_.size(), ' ');
  out_ << bracket;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  out_ << json_string(name) << ": ";
  after_key_ = true;
  return *this;
}

void JsonWriter::value(std::string_view text) {
  separate();
  out_ << json_string(text);
}

void JsonWriter::value(bool yes) {
  separate();
  out_ << (yes ? "true" : "false");
}

void JsonWriter::value(int64_t number) {
  separate();
  out_ << std::to_string(number);
}

void JsonWriter::value(uint64_t number) {
  separate();
  out_ << std::to_string(number);
}

void JsonWriter::null() {
  separate();
  out_ << "null";
}

void JsonWriter::number(double value) {
  separate();
  out_ << (std::isfinite(value) ? format_number(value) : "null");
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
