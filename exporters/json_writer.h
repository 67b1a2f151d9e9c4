#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace dettax {

// Strict JSON, written as it comes, so that no document is ever held in memory. Keys keep their order. All of it is in the stream when
// the outermost object or array is ended.
class JsonWriter {
 public:
  // With `indented`, the members of the outer `indented` levels stand on lines of their own.
  explicit JsonWriter(std::ostream& out, int indented = 0) : out_(out), indented_(indented) {}

  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  JsonWriter& key(std::string_view name);

  void value(std::string_view text);
  void value(const char* text) { value(std::string_view(text)); }
  void value(bool yes);
  void value(int64_t number);
  void value(int number) { value(static_cast<int64_t>(number)); }
  void value(uint64_t number);
  void null();
  // A number that does not exist is null: number() with a key adds "<key>_reason", which says what it was.
  void number(double value);
  void number(std::string_view key, double value);

  template <class T>
  void member(std::string_view name, const T& what) {
    key(name);
    value(what);
  }

 private:
  void open(char bracket);
  void close(char bracket);
  void separate();
  void new_line();

  std::ostream& out_;
  std::string text_;  // not yet in the stream
  int indented_;
  std::vector<bool> empty_;  // a level each: nothing written on it yet
  bool after_key_ = false;
};

}  // namespace dettax
