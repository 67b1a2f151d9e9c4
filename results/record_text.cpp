// Writes a record as JSON text, as it goes: a record of thousands of step times would make a large document in memory.
#include <array>
#include <charconv>
#include <cmath>

#include "harness/base/text.h"
#include "results/record_fields.h"
#include "results/run_folder.h"

namespace dettax {
namespace {

template <class T>
concept Struct = std::is_class_v<T> && std::is_aggregate_v<T>;

// Lists of numbers stand on one line, everything else on a line of its own.
class Writer {
 public:
  Writer(std::string& out, int depth) : out_(out), depth_(depth) { out_ += '{'; }

  template <class T>
  void operator()(const char* key, T& value) {
    begin(key);
    if constexpr (std::is_same_v<T, double>) {
      number(value);
      if (!std::isfinite(value)) say_reason(key, record_fields::reason_not_finite(value));
    } else {
      not_finite_ = 0;
      encode(value);
      if (not_finite_ > 0) say_reason(key, std::to_string(not_finite_) + " not finite");
    }
  }
  template <class T, size_t N>
  void choice(const char* key, T& value, const std::array<T, N>&) {
    begin(key);
    append_json_string(out_, to_string(value));
  }
  // A measured value that may be absent.
  template <class T>
  void optional(const char* key, std::optional<T>& value, const char* reason_absent) {
    if (value) return (*this)(key, *value);
    begin(key);
    out_ += "null";
    say_reason(key, reason_absent);
  }
  // A part of a description that may be absent.
  template <class T>
  void part(const char* key, std::optional<T>& value) {
    begin(key);
    if (value) return encode(*value);
    out_ += "null";
  }
  // A part that records of this version need not have: no key where it is absent.
  template <class T>
  void addition(const char* key, std::optional<T>& value) {
    if (value) part(key, value);
  }
  void finish() {
    if (!empty_) line(depth_);
    out_ += '}';
  }

 private:
  void line(int depth) {
    out_ += '\n';
    out_.append(static_cast<size_t>(depth), ' ');
  }
  void begin(const std::string& key) {
    if (!empty_) out_ += ',';
    empty_ = false;
    line(depth_ + 1);
    append_json_string(out_, key);
    out_ += ": ";
  }
  void say_reason(const char* key, const std::string& reason) {
    begin(std::string(key) + "_reason");
    append_json_string(out_, reason);
  }

  // Shortest text that reads back as the same double, and as a double: 1 is written 1.0, so that -0.0 keeps its sign.
  void number(double value) {
    if (!std::isfinite(value)) {
      ++not_finite_;
      out_ += "null";
      return;
    }
    std::array<char, 32> text{};
    const char* end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    const std::string_view digits(text.data(), static_cast<size_t>(end - text.data()));
    out_ += digits;
    if (digits.find_first_of(".e") == std::string_view::npos) out_ += ".0";
  }

  template <class T>
  void encode(T& value) {
    if constexpr (Struct<T>) {
      Writer inner(out_, depth_ + 1);
      record_fields::fields(inner, value);
      inner.finish();
    } else if constexpr (std::is_same_v<T, bool>) {
      out_ += value ? "true" : "false";
    } else {
      static_assert(std::is_integral_v<T>);
      out_ += std::to_string(value);
    }
  }
  void encode(double& value) { number(value); }
  void encode(std::string& value) { append_json_string(out_, value); }
  void encode(std::map<std::string, std::string>& values) {
    Writer inner(out_, depth_ + 1);
    for (auto& [key, value] : values) inner(key.c_str(), value);
    inner.finish();
  }
  template <class T>
  void encode(std::vector<T>& values) {
    constexpr bool kOneLine = std::is_arithmetic_v<T>;
    out_ += '[';
    ++depth_;
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out_ += kOneLine ? ", " : ",";
      if (!kOneLine) line(depth_ + 1);
      encode(values[i]);
    }
    --depth_;
    if (!kOneLine && !values.empty()) line(depth_ + 1);
    out_ += ']';
  }

  std::string& out_;
  int depth_;
  bool empty_ = true;
  int64_t not_finite_ = 0;  // in the value being written
};

}  // namespace

std::string to_json(const Record& record) {
  std::string text;
  Writer writer(text, 0);
  // The list of fields is one for writing and for reading; writing changes none of them.
  record_fields::fields(writer, const_cast<Record&>(record));
  writer.finish();
  text += '\n';
  return text;
}

}  // namespace dettax
